//! Counting: texts by a published tokenizer, away from the threads that serve requests, and whole requests by the upstream
//! that would answer them.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tollgate_billing::{CountedText, Demand, quote};
use tollgate_types::{Error, Tokenizer};
use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::{CallRequest, free_context};
use crate::route::Routed;

/// The most bytes of text that are counted for one request: more than the longest contexts hold, and some tenths of a
/// second of work.
pub const MOST_TEXT: usize = 4 << 20;

/// How many requests are counted at once; others wait.
const AT_ONCE: usize = 2;

/// The longest wait for an upstream's count. There is another answer, so it is not worth more.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Room for those that are counted.
pub(crate) fn room() -> Semaphore {
    Semaphore::new(AT_ONCE)
}

impl Pipeline {
    /// Counts texts; `None` when they are longer than [`MOST_TEXT`] together.
    pub async fn count_text(&self, tokenizer: Tokenizer, texts: Vec<String>) -> Option<CountedText> {
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > MOST_TEXT {
            return None;
        }
        let _room = self.counting.acquire().await.ok()?;
        let counting = self.calls.spawn_blocking(move || CountedText {
            texts: texts.len() as u64,
            bytes: bytes as u64,
            tokens: texts
                .iter()
                .map(|text| tollgate_tokens::count(tokenizer, text))
                .sum(),
        });
        match counting.await {
            Ok(counted) => Some(counted),
            Err(error) => {
                tracing::error!(%error, "cannot count tokens");
                None
            }
        }
    }

    /// Counts each of these texts, however long they are.
    pub async fn count_each(&self, tokenizer: Tokenizer, texts: Vec<String>) -> Result<Vec<u64>, Error> {
        let unable = |what: &str| Error::internal(format!("cannot count tokens: {what}"));
        let room = self.counting.acquire().await;
        let _room = room.map_err(|error| unable(&error.to_string()))?;
        let counting = self.calls.spawn_blocking(move || {
            let texts = texts.iter();
            texts
                .map(|text| tollgate_tokens::count(tokenizer, text))
                .collect()
        });
        counting.await.map_err(|error| unable(&error.to_string()))
    }

    /// Asks the provider that would be tried first how many tokens the input of a call is. Nothing is held and nothing is
    /// charged. `None` when it cannot count, has failed at it lately, or fails now: the caller has a bound of its own.
    pub async fn ask_count(&self, routed: &Routed, request: &CallRequest) -> Option<u64> {
        let route = routed.routes.first()?;
        let counter = route.provider.counts()?;
        if !self.counters.is_usable(&route.candidate) {
            return None;
        }
        let mut call = request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        call.stream = false;
        call.output_cap = quote(&routed.model, &request.demand).output_cap;
        call.reasons = routed.model.reasoning;
        let patience = self.settings.timeouts.headers.min(LONGEST_WAIT);
        let ctx = free_context(request.request, "count of tokens", patience);
        let counted = timeout(patience, counter.count(&ctx, &call)).await;
        match counted.unwrap_or_else(|_| Err(UpstreamError::timeout("no count in time"))) {
            Ok(tokens) => {
                self.counters.succeeded(&route.candidate);
                Some(tokens)
            }
            Err(error) => {
                self.counters.failed(&route.candidate, &error);
                tracing::warn!(request.id = %request.request, provider = %route.candidate.provider, %error, "upstream cannot count");
                None
            }
        }
    }
}

impl Routed {
    /// What one attempt at a call may consume, with the shape of its answer in words where the gateway adds them.
    pub fn told(&self, asked: Demand) -> Demand {
        match &self.structured {
            Some(structured) => structured.told(asked),
            None => asked,
        }
    }
}
