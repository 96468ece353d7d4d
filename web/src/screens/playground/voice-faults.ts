// Errors and ends of realtime sessions, in words for the person.

/** An error of a session, or the reason for its end. */
export interface Fault {
  title: string;
  /** The gateway's own message, or what to do. */
  message: string;
  code: string | null;
  requestId: string | null;
  /** Whether more credits help. */
  isOfBalance?: boolean;
}

/** The `error` of an event. */
export interface EventError {
  code?: string | null;
  message?: string;
  param?: string | null;
  request_id?: string | null;
}

const TITLES: Record<string, string> = {
  insufficient_credits: "The credits do not cover an answer.",
  rate_limit_exceeded: "The account has reached a limit of requests or tokens.",
  content_policy_violation: "The content policy refused the words.",
  context_length_exceeded: "The conversation is too long for the model. Start a new one.",
  session_expired: "The session has reached its maximum duration.",
  invalid_api_key: "The session in the console has ended, or the role has changed.",
  overloaded: "The gateway is busy.",
  request_too_large: "The session has too much audio or text. Start a new one.",
  input_audio_buffer_commit_empty: "The recording was too short.",
};

/** Errors of requests that were overtaken by what they request. */
const HARMLESS = new Set(["response_cancel_not_active", "conversation_already_has_active_response"]);

/** Returns the words for an error event; null if it has no consequence for the person. */
export function explainError(error: EventError | undefined): Fault | null {
  const code = error?.code ?? null;
  if (code !== null && HARMLESS.has(code)) return null;
  const fault = { message: error?.message ?? "", code, requestId: error?.request_id ?? null };
  if (code === "insufficient_credits" && error?.param === "max_cost") {
    return { ...fault, title: "The maximum cost of the session does not cover an answer.", message: "Start another session with a higher maximum cost." };
  }
  const title = TITLES[code ?? ""] ?? "The gateway reports an error.";
  return { ...fault, title, isOfBalance: code === "insufficient_credits" };
}

const CLOSES: Record<number, string> = {
  1000: "The session has reached its maximum duration.",
  1001: "Nothing was sent or received for five minutes.",
  1002: "The gateway did not understand a message of this page.",
  1003: "The gateway did not understand a message of this page.",
  1007: "The gateway did not understand a message of this page.",
  1008: "The permission for this session has ended, or its audio could not be paid for.",
  1009: "A message of this page was too large.",
  1012: "The gateway is restarting.",
};

/** Returns the words for the end of a connection. `wasOpen` is whether the gateway had accepted it. */
export function explainClose(code: number, reason: string, wasOpen: boolean): Fault {
  const lost = wasOpen
    ? "The connection was lost."
    : "The connection was not accepted. The account may have too many open sessions, or a proxy does not forward WebSockets.";
  return {
    title: CLOSES[code] ?? lost,
    message: reason || "Reconnect to continue the conversation.",
    code: `close ${code}`,
    requestId: null,
  };
}
