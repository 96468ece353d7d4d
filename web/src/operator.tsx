// The console of the operators, on the admin listener.

import { start } from "./shell/app.tsx";

start({
  signIn: () => import("./screens/operator-sign-in/screen.tsx"),
  screens: [
    {
      path: "/overview",
      label: "Overview",
      icon: "overview",
      load: () => import("./screens/operator-overview/screen.tsx"),
    },
    {
      path: "/accounts",
      label: "Accounts",
      icon: "people",
      load: () => import("./screens/operator-accounts/screen.tsx"),
    },
    {
      path: "/audit-log",
      label: "Audit log",
      icon: "audit",
      group: "Operations",
      load: () => import("./screens/operator-audit-log/screen.tsx"),
    },
    {
      path: "/settings",
      label: "Settings",
      icon: "settings",
      group: "Operations",
      load: () => import("./screens/operator-settings/screen.tsx"),
    },
  ],
  commands: () => [],
});
