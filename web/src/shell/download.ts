import { requestFile } from "./api.ts";
import { saveFile } from "./save.ts";

/** Downloads the body of a response to a file. */
export async function download(path: string, filename: string): Promise<void> {
  saveFile(filename, await requestFile(path, { account: true }));
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
