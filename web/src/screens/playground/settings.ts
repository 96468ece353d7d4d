import type { Model } from "../../shell/types.ts";

export type Effort = "" | "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

export type Format = "text" | "json_object" | "json_schema";

export interface Tool {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters: unknown;
}

/** Parameters of chat requests. Null and empty values are not sent. */
export interface Parameters {
  temperature: number | null;
  top_p: number | null;
  max_completion_tokens: number | null;
  reasoning_effort: Effort;
  verbosity: "" | "low" | "medium" | "high";
  frequency_penalty: number | null;
  presence_penalty: number | null;
  seed: number | null;
  /** One sequence a line. */
  stop: string;
  parallel_tool_calls: boolean;
  tool_choice: "auto" | "none" | "required";
}

/** Settings of one column, which take precedence over those of all columns. */
export interface ColumnSettings {
  system?: string;
  temperature?: number | null;
  max_completion_tokens?: number | null;
  reasoning_effort?: Effort;
}

export interface ChatSettings {
  models: string[];
  /** By column, like `models`. */
  columns: ColumnSettings[];
  system: string;
  parameters: Parameters;
  format: Format;
  schema: string;
  schemaName: string;
  isStrict: boolean;
  tools: Tool[];
  /** Value of `x-max-cost`; empty for none. */
  maxCost: string;
}

export const DEFAULT_PARAMETERS: Parameters = {
  temperature: null,
  top_p: null,
  max_completion_tokens: null,
  reasoning_effort: "",
  verbosity: "",
  frequency_penalty: null,
  presence_penalty: null,
  seed: null,
  stop: "",
  parallel_tool_calls: true,
  tool_choice: "auto",
};

export const EXAMPLE_SCHEMA = `{
  "type": "object",
  "properties": {
    "answer": { "type": "string" },
    "confidence": { "type": "number", "minimum": 0, "maximum": 1 }
  },
  "required": ["answer", "confidence"],
  "additionalProperties": false
}`;

export function defaultSettings(models: string[]): ChatSettings {
  return {
    models,
    columns: [],
    system: "",
    parameters: DEFAULT_PARAMETERS,
    format: "text",
    schema: EXAMPLE_SCHEMA,
    schemaName: "answer",
    isStrict: true,
    tools: [],
    maxCost: "",
  };
}

/** Returns the settings of a saved chat. Members that are missing have their defaults. */
export function readSettings(saved: Record<string, unknown>, fallback: string[]): ChatSettings {
  const defaults = defaultSettings(fallback);
  const { models, columns, parameters, tools } = saved;
  const names = Array.isArray(models) ? models.filter((one) => typeof one === "string").slice(0, MAX_COLUMNS) : [];
  const known = Object.fromEntries(
    Object.entries(saved).filter(
      ([name, value]) => name in defaults && typeof value === typeof defaults[name as keyof ChatSettings],
    ),
  );
  return {
    ...defaults,
    ...known,
    models: names.length > 0 ? names : fallback,
    columns: Array.isArray(columns) ? columns.map((one) => (one !== null && typeof one === "object" ? (one as ColumnSettings) : {})) : [],
    tools: Array.isArray(tools) ? (tools as Tool[]).filter((tool) => typeof tool?.name === "string") : [],
    parameters: { ...DEFAULT_PARAMETERS, ...(parameters && typeof parameters === "object" ? parameters : {}) },
  };
}

export const MAX_COLUMNS = 4;

export function hasOwnSettings(column: ColumnSettings | undefined): boolean {
  return Object.values(column ?? {}).some((value) => value !== "" && value !== null && value !== undefined);
}

/** Returns the settings of a column: its own, and else those of all columns. */
export function settingsOf(settings: ChatSettings, column: number): ChatSettings {
  const own = settings.columns[column] ?? {};
  const { parameters } = settings;
  return {
    ...settings,
    system: own.system || settings.system,
    parameters: {
      ...parameters,
      temperature: own.temperature ?? parameters.temperature,
      max_completion_tokens: own.max_completion_tokens ?? parameters.max_completion_tokens,
      reasoning_effort: own.reasoning_effort || parameters.reasoning_effort,
    },
  };
}

/** Returns the smallest of the maximum numbers of output tokens of the models. */
export function maxOutput(models: (Model | undefined)[]): number | null {
  const known = models.map((model) => model?.max_output_tokens).filter((one): one is number => typeof one === "number");
  return known.length > 0 ? Math.min(...known) : null;
}

/** Returns the settings that differ from the defaults, for a line such as `0.3 · 4,096 · medium`. */
export function summary(settings: ChatSettings): string {
  const { parameters } = settings;
  const parts = [
    settings.system && "system prompt",
    parameters.temperature !== null && String(parameters.temperature),
    parameters.max_completion_tokens !== null && parameters.max_completion_tokens.toLocaleString("en"),
    parameters.reasoning_effort,
    settings.format !== "text" && "JSON",
  ];
  return parts.filter(Boolean).join(" · ") || "Defaults";
}
