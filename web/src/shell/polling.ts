import { useEffect, useRef } from "preact/hooks";

/** Calls a function at an interval while it is needed and the page is visible. */
export function usePolling(isNeeded: boolean, intervalMs: number, poll: () => void): void {
  const latest = useRef(poll);
  latest.current = poll;
  useEffect(() => {
    if (!isNeeded) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && latest.current(), intervalMs);
    return () => clearInterval(timer);
  }, [isNeeded, intervalMs]);
}
