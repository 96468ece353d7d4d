/**
 * Returns the focus to the element that had it. If that has disappeared, as the last row of a list
 * does with its deletion, the heading of the details or of the page receives it.
 */
export function returnFocus(opener: Element | null): void {
  if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  requestAnimationFrame(() => {
    if (document.activeElement !== document.body || document.querySelector("dialog[open]")) return;
    const heading = document.querySelector<HTMLElement>(".pane h2") ?? document.querySelector<HTMLElement>("main h1");
    heading?.focus({ preventScroll: true });
  });
}
