import type { BatchStatus } from "../../shell/types.ts";
import type { Tone } from "../../parts/data.tsx";

export const ENDPOINTS = [
  { value: "/v1/chat/completions", label: "Chat completions" },
  { value: "/v1/embeddings", label: "Embeddings" },
] as const;

export type Endpoint = (typeof ENDPOINTS)[number]["value"];

export function endpointLabel(endpoint: string): string {
  return ENDPOINTS.find((one) => one.value === endpoint)?.label ?? endpoint;
}

export const STATUSES: Record<BatchStatus, { label: string; tone?: Tone }> = {
  validating: { label: "Waiting to start", tone: "info" },
  in_progress: { label: "In progress", tone: "info" },
  finalizing: { label: "Writing results", tone: "info" },
  completed: { label: "Completed", tone: "ok" },
  failed: { label: "Failed", tone: "bad" },
  expired: { label: "Expired", tone: "warn" },
  cancelling: { label: "Cancelling", tone: "warn" },
  cancelled: { label: "Cancelled" },
};

export function isActive(status: BatchStatus): boolean {
  return status === "validating" || status === "in_progress" || status === "finalizing" || status === "cancelling";
}

/** Bytes at the start of a file that the check reads. */
export const CHECKED_BYTES = 64 * 1024;

const MAX_CHECKED_LINES = 20;

export interface CheckedLine {
  number: number;
  customId: string | null;
  model: string | null;
  url: string | null;
  /** Null for a valid request. */
  fault: string | null;
}

export interface Check {
  lines: CheckedLine[];
  faults: number;
  /** Endpoint of the first valid line. */
  endpoint: Endpoint | null;
  model: string | null;
}

/** Checks the first requests of a file. `isWhole`: whether the text is the complete file. */
export function checkLines(text: string, isWhole: boolean): Check {
  const all = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  // The last line of a part may be incomplete.
  if (!isWhole) all.pop();
  const lines: CheckedLine[] = [];
  const ids = new Set<string>();
  let endpoint: Endpoint | null = null;
  let model: string | null = null;
  for (const [index, line] of all.entries()) {
    if (lines.length >= MAX_CHECKED_LINES) break;
    if (!line.trim()) continue;
    const checked = checkLine(line, index + 1);
    if (!checked.fault) {
      endpoint ??= ENDPOINTS.find((one) => one.value === checked.url)?.value ?? null;
      model ??= checked.model;
      if (checked.customId !== null && ids.has(checked.customId)) checked.fault = "Another line has this custom_id.";
      else if (checked.url !== endpoint) checked.fault = `The other lines have the url ${endpoint}.`;
      else if (checked.model !== model) checked.fault = `The other lines use the model ${model}.`;
    }
    if (checked.customId !== null) ids.add(checked.customId);
    lines.push(checked);
  }
  return { lines, faults: lines.filter((line) => line.fault).length, endpoint, model };
}

const MEMBERS = ["custom_id", "method", "url", "body"];

function checkLine(line: string, number: number): CheckedLine {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { number, customId: null, model: null, url: null, fault: "The line is no JSON object." };
  }
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  const request = (isObject ? value : {}) as Record<string, unknown>;
  const body = (request["body"] ?? {}) as Record<string, unknown>;
  const customId = typeof request["custom_id"] === "string" ? request["custom_id"] : null;
  const url = typeof request["url"] === "string" ? request["url"] : null;
  const model = typeof body["model"] === "string" ? body["model"] : null;
  return { number, customId, model, url, fault: faultOf(isObject, request, body, customId, url, model) };
}

function faultOf(
  isObject: boolean,
  request: Record<string, unknown>,
  body: Record<string, unknown>,
  customId: string | null,
  url: string | null,
  model: string | null,
): string | null {
  if (!isObject) return "The line is no JSON object.";
  const missing = MEMBERS.find((name) => !(name in request));
  if (missing) return `The member ${missing} is missing.`;
  const unknown = Object.keys(request).find((name) => !MEMBERS.includes(name));
  if (unknown) return `The member ${unknown} is unknown.`;
  if (!customId || [...customId].length > 512) return "custom_id must have 1 to 512 characters.";
  if (request["method"] !== "POST") return "method must be POST.";
  if (!ENDPOINTS.some((one) => one.value === url)) return "url must be /v1/chat/completions or /v1/embeddings.";
  if (!model) return "body.model is missing.";
  if (body["stream"] === true) return "A batch cannot stream: remove body.stream.";
  return null;
}
