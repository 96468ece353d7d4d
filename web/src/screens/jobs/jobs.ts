import type { Tone } from "../../parts/data.tsx";
import { ownMedia, externalLink } from "../../shell/download.ts";
import type { Job, JobStatus } from "../../shell/types.ts";

export const TYPES = [
  { value: "image.generation", label: "Images" },
  { value: "video.generation", label: "Video" },
  { value: "video.compose", label: "Composition" },
  { value: "research", label: "Research" },
  { value: "response", label: "Response" },
  { value: "batch", label: "Batch" },
  { value: "message_batch", label: "Message batch" },
] as const;

export const STATUSES: readonly { value: JobStatus; label: string; tone?: Tone }[] = [
  { value: "queued", label: "Queued", tone: "info" },
  { value: "in_progress", label: "In progress", tone: "info" },
  { value: "completed", label: "Completed", tone: "ok" },
  { value: "failed", label: "Failed", tone: "bad" },
  { value: "cancelled", label: "Cancelled" },
  { value: "expired", label: "Expired", tone: "warn" },
];

export function typeLabel(type: string): string {
  return TYPES.find((one) => one.value === type)?.label ?? type;
}

export function isEnded(status: string): boolean {
  return status !== "queued" && status !== "in_progress";
}

const PHASES: Record<string, string> = {
  accepted: "Waiting in the gateway",
  claimed: "Starting",
  submitting: "Submitting to the provider",
  queued_upstream: "Waiting at the provider",
  running: "Running at the provider",
  fetching: "Fetching the result",
  unknown: "Takes longer than expected",
};

export function phaseLabel(phase: string): string {
  return PHASES[phase] ?? phase.charAt(0).toUpperCase() + phase.slice(1).replaceAll("_", " ");
}

/** Returns the milliseconds from the start of a job to its end, or until now; null before the start. */
export function durationOf(job: Job): number | null {
  if (!job.started_at) return null;
  return (job.completed_at ? Date.parse(job.completed_at) : Date.now()) - Date.parse(job.started_at);
}

export interface Output {
  kind: "image" | "video" | "audio" | "file";
  name: string;
  /** Address that the page can load; null for addresses of other servers. */
  source: string | null;
  /** Address for a link; null if it is no http(s) address. */
  link: string | null;
  note: string;
  prompt: string | null;
}

const RASTER = /^image\/(png|jpeg|webp|gif)$/;

type Fields = Record<string, unknown>;

function fields(value: unknown): Fields {
  return value !== null && typeof value === "object" ? (value as Fields) : {};
}

function text(value: unknown): string | null {
  return typeof value === "string" && value ? value : null;
}

function kindOf(job: Job, mime: string | null): Output["kind"] {
  const kind = (mime ?? job.type).split(/[/.]/)[0];
  return kind === "image" || kind === "video" || kind === "audio" ? kind : kind === "speech" ? "audio" : "file";
}

/** Returns the media of a result. */
export function outputsOf(job: Job): Output[] {
  const result = fields(job.result);
  const list = Array.isArray(result["data"]) ? result["data"].map(fields) : [];
  const media = list.map((item, index): Output => {
    const mime = text(item["mime_type"]);
    const kind = kindOf(job, mime);
    const encoded = text(item["b64_json"]);
    const address = text(item["url"]) ?? "";
    const inline = encoded && RASTER.test(mime ?? "image/png") ? `data:${mime ?? "image/png"};base64,${encoded}` : null;
    const size = item["width"] && item["height"] ? item : result;
    const note = [
      size["width"] && size["height"] && `${String(size["width"])} × ${String(size["height"])}`,
      typeof result["duration"] === "number" && `${result["duration"]} s`,
      mime,
    ];
    return {
      kind,
      name: list.length > 1 ? `${kind} ${index + 1}` : kind,
      source: inline ?? ownMedia(address),
      link: inline ?? externalLink(address),
      note: note.filter(Boolean).join(", "),
      prompt: text(item["revised_prompt"]),
    };
  });
  const subtitles = Object.entries(fields(result["subtitles"])).map(([format, address]): Output => {
    const link = externalLink(text(address) ?? "");
    return { kind: "file", name: `Subtitles, ${format}`, source: null, link, note: "", prompt: null };
  });
  return [...media, ...subtitles];
}

export interface CostLine {
  name: string;
  model: string | null;
  cost: string;
}

/** Whether the result is a plan, whose price is that of a later rendering. */
export function isPlan(job: Job): boolean {
  return fields(job.result)["object"] === "storyboard";
}

/** Returns the steps of a composition with their cost, and the sum; null without steps. */
export function priceOf(job: Job): { lines: CostLine[]; total: string | null } | null {
  const price = fields(fields(job.result)["price"]);
  const items = price["items"];
  if (!Array.isArray(items) || items.length === 0) return null;
  const lines = items
    .map(fields)
    .map((item) => ({ name: text(item["name"]) ?? "", model: text(item["model"]), cost: text(item["cost"]) ?? "" }))
    .filter((line) => /^\d+(\.\d+)?$/.test(line.cost));
  return { lines, total: text(price["total"]) };
}

export interface Scene {
  id: string;
  narration: string | null;
  prompt: string | null;
}

/** Returns the scenes of a storyboard. */
export function scenesOf(job: Job): Scene[] {
  const scenes = fields(fields(job.result)["storyboard"])["scenes"];
  if (!Array.isArray(scenes)) return [];
  return scenes.map(fields).map((scene, index) => ({
    id: text(scene["id"]) ?? String(index + 1),
    narration: text(scene["narration"]),
    prompt: text(fields(scene["visual"])["prompt"]),
  }));
}

/** Returns the billed quantities, such as `images: 2`. */
export function quantitiesOf(job: Job): string[] {
  return Object.entries(fields(job.usage))
    .filter(([, value]) => typeof value === "number" && value > 0)
    .map(([name, value]) => `${(value as number).toLocaleString("en")} ${name.replaceAll("_", " ")}`);
}
