// Builds the requests of a chat.

import type { Answer, Content, Step, Turn } from "./chat-types.ts";
import type { ChatSettings } from "./settings.ts";

export type Message =
  | { role: "system" | "user"; content: Content }
  | { role: "assistant"; content: string | null; tool_calls?: unknown[] }
  | { role: "tool"; tool_call_id: string; content: string };

function stepMessages(step: Step): Message[] {
  const calls = step.tools.map((tool) => ({
    id: tool.id,
    type: "function",
    function: { name: tool.name, arguments: tool.arguments },
  }));
  const results = step.tools
    .filter((tool) => tool.result !== undefined)
    .map((tool): Message => ({ role: "tool", tool_call_id: tool.id, content: tool.result ?? "" }));
  // Calls without all their results would be refused.
  if (calls.length === 0 || results.length < calls.length) {
    return step.content ? [{ role: "assistant", content: step.content }] : [];
  }
  return [{ role: "assistant", content: step.content || null, tool_calls: calls }, ...results];
}

function answerMessages(answer: Answer): Message[] {
  if (answer.steps) return answer.steps.flatMap(stepMessages);
  return answer.content ? [{ role: "assistant", content: answer.content }] : [];
}

/**
 * Returns the messages of a column: every turn before with the answer of the same model, else of the
 * same column. Turns without an answer are left out, because roles alternate.
 */
export function history(turns: readonly Turn[], model: string, column: number): Message[] {
  return turns.flatMap((turn): Message[] => {
    const answer = turn.answers.find((one) => one.model === model) ?? turn.answers[column] ?? turn.answers[0];
    const answers = answer ? answerMessages(answer) : [];
    return answers.length > 0 ? [{ role: "user", content: turn.input.content }, ...answers] : [];
  });
}

/** Returns the schema of the settings, or null if its text is no JSON object. */
export function parseSchema(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function responseFormat(settings: ChatSettings): unknown {
  if (settings.format === "text") return undefined;
  if (settings.format === "json_object") return { type: "json_object" };
  const schema = parseSchema(settings.schema) ?? {};
  return { type: "json_schema", json_schema: { name: settings.schemaName || "answer", strict: settings.isStrict, schema } };
}

/** Returns the body of a chat request. Parameters without a value are left out. */
export function chatBody(model: string, messages: Message[], settings: ChatSettings): Record<string, unknown> {
  const { parameters } = settings;
  const stop = parameters.stop.split("\n").filter(Boolean).slice(0, 4);
  const hasTools = settings.tools.length > 0;
  const body: Record<string, unknown> = {
    model,
    messages: settings.system ? [{ role: "system", content: settings.system }, ...messages] : messages,
    temperature: parameters.temperature,
    top_p: parameters.top_p,
    max_completion_tokens: parameters.max_completion_tokens,
    reasoning_effort: parameters.reasoning_effort,
    verbosity: parameters.verbosity,
    frequency_penalty: parameters.frequency_penalty,
    presence_penalty: parameters.presence_penalty,
    seed: parameters.seed,
    stop: stop.length > 0 ? stop : null,
    response_format: responseFormat(settings),
    tools: hasTools
      ? settings.tools.map((tool) => ({
          type: "function",
          function: {
            name: tool.name,
            ...(tool.description ? { description: tool.description } : {}),
            parameters: tool.parameters,
          },
        }))
      : null,
    tool_choice: hasTools && parameters.tool_choice !== "auto" ? parameters.tool_choice : null,
    parallel_tool_calls: hasTools && !parameters.parallel_tool_calls ? false : null,
    stream: true,
    stream_options: { include_usage: true },
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null && value !== undefined && value !== ""));
}

/** Returns the text of a message, for titles, copies and screen readers. */
export function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : "")).join("\n").trim();
}

export function filesOf(content: Content): string[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) => (part.type === "file" ? [part.file.file_id] : []));
}
