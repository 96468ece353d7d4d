// Paths below the base of the page, by the history API: /console/, or /docs/ in the reference.

import { signal } from "@preact/signals";

const BASE = document.documentElement.dataset.base ?? "/console";

export interface Place {
  /** Path after the base, such as `/people`; `/` for none. */
  path: string;
  params: URLSearchParams;
}

function read(): Place {
  const path = location.pathname.slice(BASE.length).replace(/\/+$/, "");
  return { path: path || "/", params: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());

window.addEventListener("popstate", () => {
  place.value = read();
});

/** Returns the address of a path below the base. */
export function href(path: string): string {
  return BASE + path;
}

export function navigate(path: string, options: { replace?: boolean } = {}): void {
  const url = href(path);
  if (options.replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  place.value = read();
}

/** Changes the query of the current place without a new entry in the history. */
export function setParams(params: Record<string, string | null>): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(params)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const query = next.toString();
  navigate(place.value.path + (query && `?${query}`), { replace: true });
}

/** Returns the path of a return address if it is a path of the console, else `/`. */
export function ownPath(next: string | null): string {
  if (!next) return "/";
  const url = URL.parse(next, location.origin);
  const isOwn = url?.origin === location.origin && url.pathname.startsWith(`${BASE}/`);
  if (!url || !isOwn || url.pathname.startsWith(`${BASE}/sign-in`)) return "/";
  return url.pathname.slice(BASE.length) + url.search;
}

/** Handles clicks on links below the base, which need no new page. */
export function followLink(event: MouseEvent): void {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!isPlain || event.defaultPrevented || !link || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href, location.href);
  const isBelow = url.pathname === BASE || url.pathname.startsWith(`${BASE}/`);
  // The browser scrolls to a part of the same page.
  const isPart = url.hash !== "" && url.pathname === location.pathname;
  if (url.origin !== location.origin || !isBelow || isPart || /\.\w+$/.test(url.pathname)) return;
  event.preventDefault();
  if (url.href !== location.href) navigate(url.pathname.slice(BASE.length) + url.search + url.hash);
}
