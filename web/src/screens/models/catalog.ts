import { date, price, tokens, toUnits } from "../../shell/format.ts";
import type { Model, Totals } from "../../shell/types.ts";

const TYPES: Record<string, string> = {
  chat: "Text",
  embedding: "Embeddings",
  moderation: "Moderation",
  image: "Images",
  video: "Video",
  speech: "Speech",
  transcription: "Transcription",
  decision: "Decisions",
};

/** Names of providers whose id in capitals would be wrong. */
const PROVIDERS: Record<string, string> = {
  openai: "OpenAI",
  xai: "xAI",
  deepseek: "DeepSeek",
  zai: "Z.ai",
  nvidia: "NVIDIA",
  minimax: "MiniMax",
  sim: "Simulator",
};

/** Returns the types in the order of the filters, unknown ones last. */
export function orderTypes(types: string[]): string[] {
  const known = Object.keys(TYPES);
  return [...known.filter((type) => types.includes(type)), ...types.filter((type) => !known.includes(type))];
}

export function typeLabel(type: string): string {
  return TYPES[type] ?? capitalised(type);
}

export function providerLabel(id: string): string {
  return PROVIDERS[id] ?? capitalised(id);
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replaceAll("_", " ");
}

/** Returns the id without its provider. */
export function shortName(id: string): string {
  return id.slice(id.indexOf("/") + 1);
}

export interface Feature {
  value: string;
  label: string;
  matches: (model: Model) => boolean;
}

const reads = (modality: string) => (model: Model) => model.modalities.input.includes(modality);

export const FEATURES: readonly Feature[] = [
  { value: "images", label: "Reads images", matches: reads("image") },
  { value: "files", label: "Reads files", matches: reads("file") },
  { value: "audio", label: "Reads audio", matches: reads("audio") },
  { value: "video", label: "Reads video", matches: reads("video") },
  { value: "schema", label: "JSON Schema", matches: (model) => model.structured_output === "json_schema" },
  { value: "caching", label: "Cached input", matches: (model) => "cache_read" in model.pricing },
  { value: "batch", label: "Batch (35 % off)", matches: (model) => model.batch_supported },
];

export const STRUCTURED_OUTPUT: Record<Model["structured_output"], string> = {
  json_schema: "JSON Schema",
  json_mode: "JSON mode",
  none: "–",
};

/** Whether the price of a model counts tokens of text. */
export function isText(model: Model): boolean {
  return "input" in model.pricing || "output" in model.pricing;
}

const UNITS: Record<string, string> = {
  image: "per image",
  video: "per second",
  audio: "per second",
  character: "per 1 M characters",
  search: "per query",
};

/** Returns the unit of a class of prices. */
export function unitOf(name: string): string {
  return UNITS[name.split(">")[0] ?? ""] ?? "per 1 M tokens";
}

const CLASSES: Record<string, string> = {
  input: "Input",
  output: "Output",
  cache_read: "Cached input",
  cache_write: "Cache write",
  cache_write_1h: "Cache write, 1 hour",
  input_audio: "Audio input",
  cache_read_audio: "Cached audio input",
  input_image: "Image input",
  reasoning: "Reasoning",
  output_audio: "Audio output",
  image: "Image",
  video: "Video",
  audio: "Audio",
  character: "Characters",
  search: "Search query",
};

export interface PriceLine {
  name: string;
  label: string;
  price: string;
  unit: string;
}

const ORDER = Object.keys(CLASSES);

/** Returns the prices of a model, those for long prompts below the others. */
export function priceLines(model: Model): PriceLine[] {
  const rank = (name: string) => {
    const [base = "", above = "0"] = name.split(">");
    const place = ORDER.indexOf(base);
    return Number(above) * ORDER.length + (place < 0 ? ORDER.length : place);
  };
  return Object.entries(model.pricing)
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([name, value]) => {
      const [base = "", above] = name.split(">");
      const label = CLASSES[base] ?? capitalised(base);
      return {
        name,
        label: above ? `${label}, prompts above ${tokens(Number(above))}` : label,
        price: price(value),
        unit: unitOf(name),
      };
    });
}

const SHORT_UNITS: Record<string, string> = {
  image: "/ image",
  video: "/ s",
  audio: "/ s",
  character: "/ 1 M chars",
};

/** Returns the price of media, such as `0.01 / image`. */
export function mediaPrice(model: Model): { price: string; unit: string } | null {
  const [name, value] = Object.entries(model.pricing).find(([one]) => one in UNITS) ?? [];
  return name && value ? { price: price(value), unit: SHORT_UNITS[name] ?? "" } : null;
}

/** Returns the release date; a dash if it is not verified. */
export function releaseDate(model: Model): string {
  if (model.release_date === "-") return "–";
  return /^\d{4}-\d\d-\d\d$/.test(model.release_date) ? date(`${model.release_date}T00:00:00`) : model.release_date;
}

export const SORTS = [
  { value: "used", label: "Used most" },
  { value: "newest", label: "Newest" },
  { value: "input", label: "Lowest input price" },
  { value: "output", label: "Lowest output price" },
  { value: "context", label: "Largest context" },
  { value: "name", label: "Name" },
] as const;

export type Sort = (typeof SORTS)[number]["value"];

type Usage = ReadonlyMap<string, Totals>;

/** Compares two prices; a missing price is the highest. */
function byPrice(name: string): (a: Model, b: Model) => number {
  return (a, b) => {
    const [left, right] = [a.pricing[name], b.pricing[name]];
    if (left === undefined || right === undefined) return Number(left === undefined) - Number(right === undefined);
    const difference = toUnits(left) - toUnits(right);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  };
}

const byName = (a: Model, b: Model) => a.id.localeCompare(b.id);

function byUse(used: Usage): (a: Model, b: Model) => number {
  const cost = (model: Model) => toUnits(used.get(model.id)?.cost ?? "0");
  const requests = (model: Model) => used.get(model.id)?.requests ?? 0;
  return (a, b) => {
    const difference = cost(b) - cost(a);
    return difference < 0n ? -1 : difference > 0n ? 1 : requests(b) - requests(a);
  };
}

/** Unverified dates are last. */
const byAge = (a: Model, b: Model) => release(b).localeCompare(release(a));
const release = (model: Model) => (model.release_date === "-" ? "" : model.release_date);

export function sorted(models: Model[], sort: Sort, used: Usage): Model[] {
  const orders: Record<Sort, (a: Model, b: Model) => number> = {
    used: byUse(used),
    newest: byAge,
    input: byPrice("input"),
    output: byPrice("output"),
    context: (a, b) => (b.context_window ?? 0) - (a.context_window ?? 0),
    name: byName,
  };
  const order = orders[sort];
  return [...models].sort((a, b) => order(a, b) || (sort === "used" ? byAge(a, b) : 0) || byName(a, b));
}

export interface Filters {
  types: string[];
  features: string[];
  providers: string[];
  query: string;
  /** Highest price of output; null for any. */
  maxOutput: string | null;
}

/** Whether a model passes the filters, but for one group of them. */
export function passes(model: Model, filters: Filters, except?: "types" | "providers" | "features"): boolean {
  const { types, features, providers, query, maxOutput } = filters;
  const text = `${model.id} ${model.display_name} ${providerLabel(model.owned_by)} ${typeLabel(model.type)} ${[
    ...model.modalities.input,
    ...model.modalities.output,
    ...model.modes,
  ].join(" ")}`.toLowerCase();
  const output = model.pricing["output"];
  return (
    (except === "types" || types.length === 0 || types.includes(model.type)) &&
    (except === "providers" || providers.length === 0 || providers.includes(model.owned_by)) &&
    FEATURES.every((one) => !features.includes(one.value) || one.matches(model)) &&
    (maxOutput === null || (output !== undefined && toUnits(output) <= toUnits(maxOutput))) &&
    query
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.includes(word))
  );
}

/** A line of the comparison. Better is the lower or the higher number. */
export interface Comparison {
  label: string;
  better: "lower" | "higher" | null;
  value: (model: Model) => string | null;
  /** Number to compare; the default is none. */
  rank?: (model: Model) => bigint | null;
}

function priceOf(label: string, name: string): Comparison {
  return {
    label,
    better: "lower",
    value: (model) => (model.pricing[name] === undefined ? null : price(model.pricing[name])),
    rank: (model) => (model.pricing[name] === undefined ? null : toUnits(model.pricing[name])),
  };
}

function numberOf(label: string, read: (model: Model) => number | null | undefined): Comparison {
  return {
    label,
    better: "higher",
    value: (model) => (read(model) ? tokens(read(model) ?? 0) : null),
    rank: (model) => (read(model) ? BigInt(read(model) ?? 0) : null),
  };
}

function limit(model: Model, name: string): number | null {
  const value = model.limits[name];
  return typeof value === "number" ? value : null;
}

/** Returns the supported values of a limit, such as resolutions. */
export function valuesOf(model: Model, name: string): string[] {
  const value = model.limits[name];
  return Array.isArray(value) ? value.map(String) : [];
}

export const COMPARISONS: readonly Comparison[] = [
  priceOf("Input", "input"),
  priceOf("Cached input", "cache_read"),
  priceOf("Output", "output"),
  priceOf("Per image", "image"),
  priceOf("Video, per second", "video"),
  priceOf("Audio, per second", "audio"),
  priceOf("1 M characters", "character"),
  priceOf("Per search query", "search"),
  numberOf("Context", (model) => model.context_window),
  numberOf("Max output", (model) => model.max_output_tokens),
  numberOf("Dimensions", (model) => limit(model, "dimensions")),
  numberOf("Images a request", (model) => limit(model, "max_images")),
  {
    label: "Resolutions",
    better: null,
    value: (model) => valuesOf(model, "resolutions").join(", ") || null,
  },
  { label: "Modes", better: null, value: (model) => model.modes.join(", ") || null },
  {
    label: "Structured output",
    better: null,
    value: (model) => (model.structured_output === "none" ? null : STRUCTURED_OUTPUT[model.structured_output]),
  },
  { label: "Batch", better: null, value: (model) => (model.batch_supported ? "35 % off" : null) },
  { label: "Released", better: null, value: (model) => (model.release_date === "-" ? null : releaseDate(model)) },
];

/** Returns the models with the best value of a line; none without a difference. */
export function bestOf(models: Model[], line: Comparison): Set<Model> {
  const { rank, better } = line;
  if (!rank || !better) return new Set();
  const ranks = models.map(rank).filter((one) => one !== null);
  if (ranks.length < 2 || ranks.every((one) => one === ranks[0])) return new Set();
  const best = ranks.reduce((a, b) => ((better === "lower" ? b < a : b > a) ? b : a));
  return new Set(models.filter((model) => rank(model) === best));
}
