// A chat as the console API stores it. Members that the API does not know are stored unchanged.

export type AnswerStatus = "completed" | "stopped" | "failed";

export interface TextPart {
  type: "text";
  text: string;
}

/** An uploaded file. */
export interface FilePart {
  type: "file";
  file: { file_id: string };
}

export type Part = TextPart | FilePart;

export type Content = string | Part[];

export interface ToolUse {
  id: string;
  name: string;
  arguments: string;
  /** The pasted result; absent until it was sent. */
  result?: string;
}

export interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  completion_tokens_details?: { reasoning_tokens?: number } | null;
}

/** One request of an answer. An answer has several if its model called tools. */
export interface Step {
  reasoning: string;
  content: string;
  refusal?: string;
  tools: ToolUse[];
  finish: string | null;
  request_id: string | null;
  usage: ChatUsage | null;
  cost: string | null;
  /** Milliseconds from the request to the first content, and to the end. */
  first_ms: number | null;
  reasoning_ms: number | null;
  duration_ms: number | null;
}

export interface AnswerError {
  message: string;
  code: string;
}

export interface Answer {
  model: string;
  content: string | null;
  status: AnswerStatus;
  request_id: string | null;
  usage: ChatUsage | null;
  cost: string | null;
  steps?: Step[];
  error?: AnswerError | null;
}

export interface Input {
  content: Content;
  /** Names of the uploaded files by id, for display. */
  files?: Record<string, string>;
  /** Ids of those files that are images. */
  images?: string[];
}

export interface Turn {
  input: Input;
  answers: Answer[];
}

/** A saved chat without its turns. */
export interface ChatRecord {
  id: string;
  title: string;
  kind: string;
  models: string[];
  revision: number;
  turns: number;
  bytes: number;
  created_by: string | null;
  created_at: string;
  updated_at: string;
}

export interface WholeChat extends ChatRecord {
  settings: Record<string, unknown>;
  content: Turn[];
}

export interface ChatList {
  data: ChatRecord[];
  has_more: boolean;
  count: number;
  limit: number;
}
