import { dayTime } from "../../shell/format.ts";
import type { ApiKey, Compat } from "../../shell/types.ts";
import type { Tone } from "../../parts/data.tsx";

export const COMPAT_LEVELS: readonly { value: Compat; label: string; note: string }[] = [
  { value: "strict", label: "Strict", note: "Refuses requests that a model does not support completely." },
  { value: "standard", label: "Standard", note: "Adapts requests of agents to the model, and refuses unknown fields." },
  { value: "lenient", label: "Lenient", note: "Also ignores unknown fields and tools that run at a provider." },
];

export const SYNC = {
  label: "Wait for images",
  note: "Image requests return the images instead of a job, as OpenAI's clients expect.",
};

export const MAX_NAME_LENGTH = 100;

/** Returns how the key is shown: its beginning and its last four characters. */
export function masked(key: ApiKey): string {
  return `sk-…${key.last4}`;
}

/** Whether a key counts towards the maximum number of keys of the account. */
export function isCounted(key: ApiKey): boolean {
  return key.state !== "revoked" && !key.replaced_by;
}

export function mayRotate(key: ApiKey): boolean {
  return key.state === "active" && !key.replaced_by;
}

export interface KeyStatus {
  tone?: Tone;
  label: string;
  /** Label for phones. */
  short?: string;
}

export function statusOf(key: ApiKey): KeyStatus {
  if (key.state === "revoked") return { label: "Revoked" };
  if (key.state === "expired") return key.replaced_by ? { label: "Replaced" } : { tone: "warn", label: "Expired" };
  if (!key.replaced_by) return { tone: "ok", label: "Active" };
  if (!key.expires_at) return { tone: "warn", label: "Replaced" };
  const end = dayTime(key.expires_at);
  return { tone: "warn", label: `Replaced, works until ${end}`, short: `Works until ${end}` };
}

/** Returns the number of a field with whole numbers; null if it is outside the range. */
export function wholeNumber(text: string, minimum: number, maximum: number): number | null {
  if (!/^\d{1,6}$/.test(text.trim())) return null;
  const number = Number.parseInt(text, 10);
  return number >= minimum && number <= maximum ? number : null;
}
