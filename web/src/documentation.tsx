// The API reference: at /docs on the public listener, and at /admin/docs on the admin listener.

void import("./reference/app.tsx").then(({ start }) => start(() => import("./guides/page.tsx")));
