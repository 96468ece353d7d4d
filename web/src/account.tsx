// The console of the accounts, on the public listener.

import { start } from "./shell/app.tsx";
import { mayCreateKeys, mayManageRole } from "./shell/roles.ts";
import { navigate } from "./shell/router.ts";

start({
  signIn: () => import("./screens/sign-in/screen.tsx"),
  welcome: () => import("./screens/welcome/screen.tsx"),
  screens: [
    { path: "/overview", label: "Overview", icon: "overview", load: () => import("./screens/overview/screen.tsx") },
    {
      path: "/keys",
      label: "Keys",
      icon: "key",
      group: "Account",
      load: () => import("./screens/keys/screen.tsx"),
    },
    {
      path: "/people",
      label: "People",
      icon: "people",
      group: "Account",
      load: () => import("./screens/people/screen.tsx"),
    },
    {
      path: "/settings",
      label: "Settings",
      icon: "settings",
      isInFooter: true,
      load: () => import("./screens/settings/screen.tsx"),
    },
  ],
  commands: () => [
    ...(mayCreateKeys()
      ? [
          {
            group: "Actions" as const,
            label: "Create key",
            icon: "key" as const,
            run: () => navigate("/keys?create=1"),
          },
        ]
      : []),
    ...(mayManageRole("viewer")
      ? [
          {
            group: "Actions" as const,
            label: "Invite a person",
            icon: "plus" as const,
            run: () => navigate("/people?invite=1"),
          },
        ]
      : []),
    { group: "Actions", label: "Change the password", icon: "edit", run: () => navigate("/settings?show=password") },
  ],
});
