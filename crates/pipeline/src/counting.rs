//! Token counts: of texts with a published tokenizer, on blocking threads, and of whole requests by
//! the upstream that would execute them.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tollgate_billing::{CountedText, Demand, quote};
use tollgate_types::{Error, Tokenizer};
use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::{CallRequest, free_context};
use crate::health::Shape;
use crate::route::Routed;

/// Maximum number of text bytes to count for one request. A text of this length exceeds the longest
/// context windows, and counting it takes some tenths of a second.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// Maximum number of concurrent counts; others wait.
const MAX_CONCURRENT: usize = 2;

/// Timeout of an upstream's token count, short because a local estimate exists.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates the semaphore that limits concurrent counts.
pub(crate) fn count_slots() -> Semaphore {
    Semaphore::new(MAX_CONCURRENT)
}

impl Pipeline {
    /// Counts texts; `None` if their total length exceeds [`MAX_TEXT_BYTES`], or if counting fails.
    pub async fn count_text(&self, tokenizer: Tokenizer, texts: Vec<String>) -> Option<CountedText> {
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > MAX_TEXT_BYTES {
            return None;
        }
        let _slot = self.counting.acquire().await.ok()?;
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

    /// Counts each text, without a limit on its length.
    pub async fn count_each(&self, tokenizer: Tokenizer, texts: Vec<String>) -> Result<Vec<u64>, Error> {
        let count_error = |what: &str| Error::internal(format!("cannot count tokens: {what}"));
        let count_slots = self.counting.acquire().await;
        let _slot = count_slots.map_err(|error| count_error(&error.to_string()))?;
        let counting = self.calls.spawn_blocking(move || {
            let texts = texts.iter();
            texts
                .map(|text| tollgate_tokens::count(tokenizer, text))
                .collect()
        });
        counting.await.map_err(|error| count_error(&error.to_string()))
    }

    /// Requests the token count of a call's input from the first candidate's provider, at no
    /// charge. `None` if the provider cannot count tokens, is marked as failing, or fails to
    /// respond; callers then use an estimate.
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
        call.abilities = route.candidate.abilities.clone();
        let max_wait = self.settings.timeouts.headers.min(COUNT_TIMEOUT);
        let ctx = free_context(request.request, "count of tokens", max_wait);
        let counted = timeout(max_wait, counter.count(&ctx, &call)).await;
        match counted.unwrap_or_else(|_| Err(UpstreamError::timeout("no token count before the timeout"))) {
            Ok(tokens) => {
                self.counters.succeeded(&route.candidate, Shape::default());
                Some(tokens)
            }
            Err(error) => {
                self.counters.failed(&route.candidate, &error, Shape::default());
                tracing::warn!(request.id = %request.request, provider = %route.candidate.provider, %error, "upstream failed to count tokens");
                None
            }
        }
    }
}

impl Routed {
    /// Returns the demand of one attempt, including the schema text that the gateway adds for
    /// structured output.
    pub fn single_attempt_demand(&self, requested: Demand) -> Demand {
        match &self.structured {
            Some(structured) => structured.single_attempt_demand(requested),
            None => requested,
        }
    }
}
