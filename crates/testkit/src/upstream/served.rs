//! The upstream's record: the content of each answer, its reported usage, and its end.

use serde_json::{Value, json};

/// Token counts of one answer. `cached` and `cache_write` are part of `prompt`, `reasoning` of
/// `completion`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// `prompt_tokens`
    pub prompt: u64,
    /// `completion_tokens`
    pub completion: u64,
    /// `prompt_tokens_details.cached_tokens`
    pub cached: u64,
    /// `prompt_tokens_details.cache_write_tokens`
    pub cache_write: u64,
    /// `completion_tokens_details.reasoning_tokens`
    pub reasoning: u64,
}

/// One answer of the fake upstream, recorded from the start of its work on the answer.
///
/// Other replies (error statuses, raw bytes) have no record here; only their requests are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The `id` of the answer, the same on every chunk; unique to this upstream.
    pub id: String,
    /// The request it answers: [`ReceivedRequest::sequence`](super::ReceivedRequest::sequence).
    pub request: u64,
    /// The requested model.
    pub model: String,
    /// Whether a stream was requested.
    pub streamed: bool,
    /// The used tokens: the prompt, and the completion so far.
    pub used: Tokens,
    /// The `usage` that was last sent, as the JSON text on the wire; `None` until then.
    pub reported: Option<String>,
    /// How the answer ended.
    pub end: End,
}

/// How an answer ended, as the upstream sees it. The record is updated just before the bytes go
/// out: it contains everything that a client has read, and perhaps bytes that are still in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The upstream still sends the answer, or waits for a delay or gate of the script.
    Open,
    /// The whole answer was sent.
    Complete,
    /// The script broke the answer off.
    Cut,
    /// The client closed the connection first.
    ClientGone,
}

impl Served {
    /// Prompt and completion tokens of the reported usage, when both are numbers that fit.
    pub fn reported_tokens(&self) -> Option<(u64, u64)> {
        let usage: Value = serde_json::from_str(self.reported.as_deref()?).ok()?;
        Some((
            usage.get("prompt_tokens")?.as_u64()?,
            usage.get("completion_tokens")?.as_u64()?,
        ))
    }

    /// The entry as `GET /_served` shows it.
    pub(super) fn to_json(&self) -> Value {
        let used = self.used;
        json!({
            "id": self.id,
            "request": self.request,
            "model": self.model,
            "streamed": self.streamed,
            "used": {
                "prompt_tokens": used.prompt,
                "completion_tokens": used.completion,
                "cached_tokens": used.cached,
                "cache_write_tokens": used.cache_write,
                "reasoning_tokens": used.reasoning,
            },
            "reported": self.reported,
            "end": match self.end {
                End::Open => "open",
                End::Complete => "complete",
                End::Cut => "cut",
                End::ClientGone => "client_gone",
            },
        })
    }
}
