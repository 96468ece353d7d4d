// Runs before the page is drawn: applies the stored theme, so that the page never flashes in
// another one, and requests the session while the modules load.
{
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem("tollgate.theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // Without storage, the theme of the system applies.
  }
  const base = root.dataset.console === "operator" ? "/console/admin/v1" : "/console/api/v1";
  window.earlySession = fetch(`${base}/session`, {
    headers: { "x-tollgate-account": "-" },
    credentials: "same-origin",
  });
  // The session is requested again if this request failed.
  window.earlySession.catch(() => undefined);
}
