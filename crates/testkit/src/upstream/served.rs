//! The upstream's own books: what it said, what usage it reported, and how each answer ended.

use serde_json::{Value, json};

/// Token counts of one answer. `cached` and `cache_write` are part of `prompt`, `reasoning` of `completion`.
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

/// One answer of the fake upstream, from the moment when it starts to work on it.
///
/// Replies that are no answer (error statuses, raw bytes) are requests, but nothing is served by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The `id` of the answer, the same on every chunk; unique to this upstream.
    pub id: String,
    /// The request it answers: [`ReceivedRequest::sequence`](super::ReceivedRequest::sequence).
    pub request: u64,
    /// The model that was asked for.
    pub model: String,
    /// Whether the request asked for a stream.
    pub streamed: bool,
    /// What the upstream has used up: the prompt, and the completion as far as it came.
    pub used: Tokens,
    /// The `usage` that was last sent, as the JSON text on the wire; `None` until then.
    pub reported: Option<String>,
    /// How the answer ended.
    pub end: End,
}

/// How an answer ended, seen from the upstream. Everything is in the books just before its bytes go out: what a client
/// has read is in them, and what is in them may still be on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is still being sent, or waits by order of the script.
    Open,
    /// All of it was sent.
    Complete,
    /// The script broke it off.
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
