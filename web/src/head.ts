// Runs before the page is drawn: applies the stored theme, so that the page never flashes in
// another one, and requests the session and the first data of the screen while the modules load.
{
  const { console: kind, base } = document.documentElement.dataset;
  const early: EarlyResponses = new Map();
  const get = (account: string, path: string) => {
    const headers = { "x-tollgate-account": account };
    const response = fetch(path, { headers, credentials: "same-origin", cache: "no-store" });
    // A request that failed is sent again by the screen.
    response.catch(() => undefined);
    early.set(`${account} ${path}`, response);
  };
  let account: string | null = null;
  try {
    const theme = localStorage.getItem("tollgate.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    account = localStorage.getItem("tollgate.signed-in");
  } catch {
    // Without storage, the theme of the system applies, and the data waits for the session.
  }
  get("-", kind === "operator" ? "/console/admin/v1/session" : "/console/api/v1/session");
  if (kind === "account" && base === "/console" && account && !location.search) {
    const DAY_MS = 86_400_000;
    const to = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS;
    const from = new Date(to - 30 * DAY_MS).toISOString();
    const usage = `/console/v1/account/usage?limit=8&from=${from.slice(0, 10)}&group_by=day`;
    const range = new URLSearchParams({ from, to: new Date(to).toISOString(), step: "day", by: "model" });
    const series = `/console/api/v1/usage/series?${range.toString()}`;
    const screens: Record<string, string[]> = {
      "": [usage, series],
      "/overview": [usage, series],
      "/playground": ["/console/v1/models"],
      "/usage": [series],
    };
    for (const path of screens[location.pathname.slice(base.length).replace(/\/+$/, "")] ?? []) get(account, path);
  }
  // Later, a screen loads its data anew.
  setTimeout(() => early.clear(), 30_000);
  window.early = early;
}
