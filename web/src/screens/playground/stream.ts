import { ApiError, open, PUBLIC_API } from "../../shell/api.ts";
import { readEvents } from "../../shell/events.ts";
import type { ChatUsage, Step } from "./chat-types.ts";

interface Delta {
  content?: string | null;
  refusal?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

interface Chunk {
  choices?: { delta: Delta; finish_reason: string | null }[];
  usage?: (ChatUsage & { cost?: string }) | null;
  error?: { message?: string; code?: string | null };
}

export function emptyStep(): Step {
  return {
    reasoning: "",
    content: "",
    tools: [],
    finish: null,
    request_id: null,
    usage: null,
    cost: null,
    first_ms: null,
    reasoning_ms: null,
    duration_ms: null,
  };
}

/** Sends a chat request, and adds what arrives to the step. `onChange` is called after each event. */
export async function streamStep(
  body: string,
  step: Step,
  options: { account: string; maxCost: string; signal: AbortSignal; onChange: () => void },
): Promise<void> {
  const start = performance.now();
  const since = () => Math.round(performance.now() - start);
  try {
    const response = await open("POST", `${PUBLIC_API}/chat/completions`, {
      body: JSON.parse(body) as unknown,
      account: options.account,
      signal: options.signal,
      headers: options.maxCost ? { "x-max-cost": options.maxCost } : {},
    });
    step.request_id = response.headers.get("x-request-id");
    for await (const event of readEvents(response)) {
      if (event.data === "[DONE]") break;
      const chunk = JSON.parse(event.data) as Chunk;
      if (chunk.error) {
        throw new ApiError(chunk.error.message ?? "The stream ended with an error.", 200, chunk.error.code ?? "stream_error");
      }
      apply(chunk, step, since);
      options.onChange();
    }
    if (step.finish === null) throw new ApiError("The stream ended before the answer was complete.", 200, "incomplete");
  } finally {
    step.duration_ms = since();
  }
}

function apply(chunk: Chunk, step: Step, since: () => number): void {
  for (const choice of chunk.choices ?? []) {
    const { delta } = choice;
    const hasContent = !!delta.content || !!delta.refusal || (delta.tool_calls ?? []).length > 0;
    if ((hasContent || delta.reasoning_content) && step.first_ms === null) step.first_ms = since();
    if (delta.reasoning_content) step.reasoning += delta.reasoning_content;
    if (hasContent && step.reasoning && step.reasoning_ms === null) step.reasoning_ms = since() - (step.first_ms ?? 0);
    if (delta.content) step.content += delta.content;
    if (delta.refusal) step.refusal = (step.refusal ?? "") + delta.refusal;
    for (const call of delta.tool_calls ?? []) {
      const known = step.tools[call.index];
      const tool = known ?? { id: call.id ?? `call_${call.index}`, name: "", arguments: "" };
      if (!known) step.tools[call.index] = tool;
      tool.name += call.function?.name ?? "";
      tool.arguments += call.function?.arguments ?? "";
    }
    if (choice.finish_reason) step.finish = choice.finish_reason;
  }
  if (chunk.usage) {
    step.usage = chunk.usage;
    step.cost = chunk.usage.cost ?? null;
  }
}
