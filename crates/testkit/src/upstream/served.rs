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
    /// The `id` of the answer, which is the same in every chunk and unique to this upstream.
    pub id: String,
    /// The request that was answered:
    /// [`ReceivedRequest::sequence`](super::ReceivedRequest::sequence).
    pub request: u64,
    /// The requested model.
    pub model: String,
    /// Whether a stream was requested.
    pub streamed: bool,
    /// The tokens used: the prompt, and the completion so far.
    pub used: Tokens,
    /// The `usage` that was sent last, as the JSON text on the wire; `None` until then.
    pub reported: Option<String>,
    /// State of the answer: still open, or the way in which it ended.
    pub end: End,
}

/// End of an answer, as seen by the upstream. The record is updated just before the bytes are sent:
/// it contains everything that a client has read, and possibly bytes that are still in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The upstream is still sending the answer, or waits for a delay or gate of the script.
    Open,
    /// The whole answer was sent.
    Complete,
    /// The script broke off the answer.
    Cut,
    /// The client closed the connection first.
    ClientGone,
}

impl Served {
    /// Returns the prompt and completion tokens of the reported usage, if both are integers that
    /// fit.
    pub fn reported_tokens(&self) -> Option<(u64, u64)> {
        let usage: Value = serde_json::from_str(self.reported.as_deref()?).ok()?;
        Some((
            usage.get("prompt_tokens")?.as_u64()?,
            usage.get("completion_tokens")?.as_u64()?,
        ))
    }

    /// Returns the entry in the format of `GET /_served`.
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
