import { Status, type Tone } from "../parts/data.tsx";
import { count } from "./format.ts";
import { iso, type Span } from "./period.ts";
import type { UsageClasses, UsageRow } from "./types.ts";

const OUTCOMES: Record<string, readonly [Tone, string]> = {
  ok: ["ok", "OK"],
  client_gone: ["warn", "Stopped"],
  cancelled: ["warn", "Cancelled"],
  blocked_input: ["warn", "Input blocked"],
  blocked_output: ["warn", "Output blocked"],
  upstream_error: ["bad", "Provider error"],
  timeout: ["bad", "Timeout"],
  crashed: ["bad", "Interrupted"],
};

/** Returns the path of the list of calls in a range of time. */
export function callsIn({ from, to }: Span): string {
  return `/calls?${new URLSearchParams({ from: iso(from), to: iso(to) }).toString()}`;
}

/** Outcomes of calls, for filters. */
export const OUTCOME_OPTIONS: readonly { value: string; label: string }[] = [
  { value: "error", label: "All but OK" },
  ...Object.entries(OUTCOMES).map(([value, [, label]]) => ({ value, label })),
];

/** The outcome of a call: dot and word. */
export function Outcome(props: { outcome: string }) {
  const [tone, label] = OUTCOMES[props.outcome] ?? (["warn", props.outcome] as const);
  return (
    <Status tone={tone} isQuiet={tone === "ok"}>
      {label}
    </Status>
  );
}

/** The id of a model. Where it is too long, its prefix is cut first. */
export function ModelName(props: { id: string }) {
  const slash = props.id.indexOf("/");
  if (slash < 0) return <span class="trunc">{props.id}</span>;
  return (
    <>
      <span class="model" title={props.id} aria-hidden="true">
        <span class="trunc">{props.id.slice(0, slash)}</span>/<span class="trunc">{props.id.slice(slash + 1)}</span>
      </span>
      <span class="sr">{props.id}</span>
    </>
  );
}

export function shortEndpoint(endpoint: string): string {
  return endpoint.replace(/^\/v1\//, "");
}

/** Input of a call, such as `1,204` tokens, `62 s` or `840 characters`. */
export function inputOf(row: UsageRow): string {
  const { usage } = row;
  const tokens = inputTokens(usage);
  if (tokens > 0) return count(tokens);
  if (usage.characters > 0) return `${count(usage.characters)} characters`;
  if (usage.audio_seconds > 0 && isListening(row)) return `${count(Math.round(usage.audio_seconds))} s`;
  return "–";
}

/** Output of a call, such as `310` tokens, `2 images` or `5 s`. */
export function outputOf(row: UsageRow): string {
  const { usage } = row;
  const tokens = usage.output_tokens + usage.reasoning_tokens + usage.output_audio_tokens;
  if (tokens > 0) return count(tokens);
  if (usage.images > 0) return `${count(usage.images)} ${usage.images === 1 ? "image" : "images"}`;
  if (usage.video_seconds > 0) return `${count(usage.video_seconds)} s`;
  if (usage.audio_seconds > 0 && !isListening(row)) return `${count(Math.round(usage.audio_seconds))} s`;
  return "–";
}

export function inputTokens(usage: Partial<UsageClasses>): number {
  const { input_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0, cache_write_1h_tokens = 0 } = usage;
  const { input_audio_tokens = 0, input_image_tokens = 0, cache_read_audio_tokens = 0 } = usage;
  const cache = cache_read_tokens + cache_read_audio_tokens + cache_write_tokens + cache_write_1h_tokens;
  return input_tokens + input_audio_tokens + input_image_tokens + cache;
}

/** Whether the audio of a call is its input. */
function isListening(row: UsageRow): boolean {
  return /transcription|translation/.test(row.endpoint);
}
