import { useEffect, useRef, useState } from "preact/hooks";

import { Icon } from "../../parts/icon.tsx";
import { ApiError, open, toApiError } from "../../shell/api.ts";
import { fileFault, filePath, uploadFile } from "../../shell/files.ts";
import { rememberImage } from "./images.ts";
import type { Content, Input, Part } from "./chat-types.ts";

export interface Attachment {
  key: number;
  file: File;
  /** Id of the uploaded file; null while it is sent. */
  id: string | null;
  share: number;
  error: string | null;
}

let lastKey = 0;

/** Files that were added to a message. They are uploaded immediately. */
export function useAttachments() {
  const [list, setList] = useState<Attachment[]>([]);
  const aborts = useRef(new Map<number, AbortController>());
  const update = (key: number, changes: Partial<Attachment>) =>
    setList((old) => old.map((one) => (one.key === key ? { ...one, ...changes } : one)));
  const add = (files: Iterable<File>) => {
    for (const file of files) {
      lastKey += 1;
      const key = lastKey;
      const error = fileFault(file, "user_data");
      setList((old) => [...old, { key, file, id: null, share: 0, error }]);
      if (error) continue;
      const abort = new AbortController();
      aborts.current.set(key, abort);
      const purpose = file.type.startsWith("image/") ? "vision" : "user_data";
      uploadFile(file, purpose, null, (share) => update(key, { share }), abort.signal).then(
        (stored) => {
          if (purpose === "vision") rememberImage(stored.id, file);
          update(key, { id: stored.id });
        },
        (failure: unknown) => update(key, { error: toApiError(failure).message }),
      );
    }
  };
  const remove = (key: number) => {
    aborts.current.get(key)?.abort();
    setList((old) => old.filter((one) => one.key !== key));
  };
  return { list, add, remove, clear: () => setList([]), isReady: list.every((one) => one.id !== null) };
}

/** Returns a message with its uploaded files before its text. */
export function toInput(text: string, attachments: { id: string; name: string; isImage: boolean }[]): Input {
  if (attachments.length === 0) return { content: text };
  const parts: Part[] = attachments.map(({ id }) => ({ type: "file", file: { file_id: id } }));
  const content: Content = text.trim() ? [...parts, { type: "text", text }] : parts;
  const images = attachments.filter((one) => one.isImage).map((one) => one.id);
  return { content, files: Object.fromEntries(attachments.map(({ id, name }) => [id, name])), images };
}

/** An uploaded file of a message. Images are shown; a file that was deleted is marked. */
export function FileChip(props: { id: string; name: string | undefined; isImage: boolean }) {
  const { id, name, isImage } = props;
  const [source, setSource] = useState<string | null>(null);
  const [isGone, setGone] = useState(false);
  useEffect(() => {
    if (!isImage) return undefined;
    const abort = new AbortController();
    let url: string | null = null;
    open("GET", `${filePath(id)}/content`, { account: true, signal: abort.signal })
      .then((response) => response.blob())
      .then((blob) => {
        url = URL.createObjectURL(blob);
        setSource(url);
      })
      .catch((error: unknown) => {
        if (error instanceof ApiError && (error.status === 404 || error.status === 410)) setGone(true);
      });
    return () => {
      abort.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [id]);
  if (source) return <img class="attimg" src={source} alt={name ?? "Image"} />;
  return (
    <span class="att">
      <Icon name={isImage ? "image" : "files"} />
      <span class="trunc">{name ?? id}</span>
      {isGone && <span class="warn">expired</span>}
    </span>
  );
}
