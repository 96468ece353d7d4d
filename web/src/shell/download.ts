import { open } from "./api.ts";

/** Milliseconds after which the browser has read the address of a download. */
const RELEASE_MS = 60_000;

/** Downloads the body of a response to a file. */
export async function download(path: string, filename: string): Promise<void> {
  const response = await open("GET", path, { account: true });
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), RELEASE_MS);
}

/** Returns the address of a media object if the page may load it: a signed one of this server. */
export function ownMedia(address: string): string | null {
  const url = URL.parse(address);
  return url?.origin === location.origin && url.pathname.startsWith("/v1/media/") ? url.href : null;
}

/** Returns an address of another server for a link; null if it is no http(s) address. */
export function externalLink(address: string): string | null {
  const url = URL.parse(address);
  return url?.protocol === "https:" || url?.protocol === "http:" ? url.href : null;
}
