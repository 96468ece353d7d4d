// Images of messages. A chat names them by the ids of uploaded files; requests contain them as data
// URLs, because chat completions accept only documents by id.

import { open } from "../../shell/api.ts";
import { filePath } from "../../shell/files.ts";
import type { Message } from "./body.ts";
import type { Part } from "./chat-types.ts";

type RequestPart = Part | { type: "image_url"; image_url: { url: string } };

const urls = new Map<string, Promise<string>>();

function readAsUrl(blob: Blob): Promise<string> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => fail(reader.error ?? new Error("The image cannot be read."));
    reader.readAsDataURL(blob);
  });
}

/** Stores the content of an uploaded image, so that requests need not download it. */
export function rememberImage(id: string, file: Blob): void {
  urls.set(id, readAsUrl(file));
}

export function forgetImages(): void {
  urls.clear();
}

async function download(id: string, account: string): Promise<string> {
  const response = await open("GET", `${filePath(id)}/content`, { account });
  return readAsUrl(await response.blob());
}

function urlOf(id: string, account: string): Promise<string> {
  const known = urls.get(id);
  if (known) return known;
  const loading = download(id, account);
  urls.set(id, loading);
  loading.catch(() => urls.delete(id));
  return loading;
}

/** Returns messages in which the images are data URLs. An image that is gone becomes a text. */
export async function inlineImages(messages: Message[], images: ReadonlySet<string>, account: string): Promise<Message[]> {
  const inline = async (part: Part): Promise<RequestPart> => {
    if (part.type !== "file" || !images.has(part.file.file_id)) return part;
    try {
      return { type: "image_url", image_url: { url: await urlOf(part.file.file_id, account) } };
    } catch {
      return { type: "text", text: "(This image has expired.)" };
    }
  };
  return Promise.all(
    messages.map(async (message) => {
      if (message.role !== "user" || typeof message.content === "string") return message;
      return { ...message, content: (await Promise.all(message.content.map(inline))) as Part[] };
    }),
  );
}
