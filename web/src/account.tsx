// The console of the accounts, on the public listener.

import { start } from "./shell/app.tsx";
import { unfinishedJobs } from "./shell/live.ts";
import { mayAdminister, mayCreateKeys, mayMakeCalls, mayManageRole, mayReadContents } from "./shell/roles.ts";
import { navigate } from "./shell/router.ts";

start({
  signIn: () => import("./screens/sign-in/screen.tsx"),
  welcome: () => import("./screens/welcome/screen.tsx"),
  screens: [
    { path: "/overview", label: "Overview", icon: "overview", load: () => import("./screens/overview/screen.tsx") },
    {
      path: "/playground",
      label: "Playground",
      icon: "play",
      isAllowed: mayReadContents,
      load: () => import("./screens/playground/screen.tsx"),
    },
    {
      path: "/chats",
      label: "Chats",
      icon: "chat",
      isAllowed: mayReadContents,
      load: () => import("./screens/chats/screen.tsx"),
    },
    { path: "/models", label: "Models", icon: "models", load: () => import("./screens/models/screen.tsx") },
    {
      path: "/usage",
      label: "Usage",
      icon: "usage",
      group: "Observe",
      load: () => import("./screens/usage/screen.tsx"),
    },
    {
      path: "/calls",
      label: "Calls",
      icon: "calls",
      group: "Observe",
      load: () => import("./screens/calls/screen.tsx"),
    },
    {
      path: "/audit",
      label: "Audit log",
      icon: "audit",
      group: "Observe",
      isAllowed: mayAdminister,
      load: () => import("./screens/audit/screen.tsx"),
    },
    {
      path: "/jobs",
      label: "Jobs",
      icon: "jobs",
      count: () => unfinishedJobs.value,
      group: "Work",
      isAllowed: mayReadContents,
      load: () => import("./screens/jobs/screen.tsx"),
    },
    {
      path: "/batches",
      label: "Batches",
      icon: "batches",
      group: "Work",
      load: () => import("./screens/batches/screen.tsx"),
    },
    {
      path: "/files",
      label: "Files",
      icon: "files",
      group: "Work",
      load: () => import("./screens/files/screen.tsx"),
    },
    {
      path: "/templates",
      label: "Templates",
      icon: "templates",
      group: "Work",
      load: () => import("./screens/templates/screen.tsx"),
    },
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
      path: "/billing",
      label: "Billing",
      icon: "billing",
      group: "Account",
      load: () => import("./screens/billing/screen.tsx"),
    },
    {
      path: "/webhooks",
      label: "Webhooks",
      icon: "webhooks",
      group: "Account",
      isAllowed: mayAdminister,
      load: () => import("./screens/webhooks/screen.tsx"),
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
    ...(mayMakeCalls()
      ? [
          {
            group: "Actions" as const,
            label: "New chat",
            icon: "chat" as const,
            run: () => navigate("/playground?new=1"),
          },
          {
            group: "Actions" as const,
            label: "Upload a file",
            icon: "upload" as const,
            run: () => navigate("/files?upload=1"),
          },
          {
            group: "Actions" as const,
            label: "Create a batch",
            icon: "batches" as const,
            run: () => navigate("/batches?create=1"),
          },
        ]
      : []),
    { group: "Actions", label: "Request higher limits", icon: "usage", run: () => navigate("/usage?limits=1") },
    { group: "Actions", label: "Change the password", icon: "edit", run: () => navigate("/settings?show=password") },
  ],
});
