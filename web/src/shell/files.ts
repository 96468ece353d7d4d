// Uploaded files, which the screens of files and of batches share.

import { PUBLIC_API, upload } from "./api.ts";
import { download } from "./download.ts";
import type { StoredFile } from "./types.ts";

const MIB = 1024 * 1024;

/** Maximum size of a file in bytes. */
export const MAX_FILE_BYTES = 512 * MIB;

/** Maximum size of a file with the purpose `batch`, in bytes. */
export const MAX_BATCH_FILE_BYTES = 200 * MIB;

export function filePath(id: string): string {
  return `${PUBLIC_API}/files/${encodeURIComponent(id)}`;
}

/** Returns the fault of a file for a purpose; null if it may be uploaded. */
export function fileFault(file: File | null, purpose: string): string | null {
  if (!file) return "Choose a file.";
  if (file.size === 0) return "The file is empty.";
  const limit = purpose === "batch" ? MAX_BATCH_FILE_BYTES : MAX_FILE_BYTES;
  return file.size > limit ? `The file is larger than ${limit / MIB} MiB.` : null;
}

export function uploadFile(
  file: File,
  purpose: string,
  expiresAfterSeconds: number | null,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<StoredFile> {
  const form = new FormData();
  form.append("purpose", purpose);
  if (expiresAfterSeconds !== null) {
    form.append("expires_after[anchor]", "created_at");
    form.append("expires_after[seconds]", String(expiresAfterSeconds));
  }
  form.append("file", file, file.name);
  return upload<StoredFile>(`${PUBLIC_API}/files`, form, onProgress, signal);
}

export function downloadFile(id: string, filename: string): Promise<void> {
  return download(`${filePath(id)}/content`, filename);
}
