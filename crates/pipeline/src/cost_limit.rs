//! Ends a streamed response at the caller's cost limit. Upstreams receive the output cap that the
//! limit pays for; this module guards against upstreams that ignore the cap.

use tollgate_billing::Quote;
use tollgate_billing::quote::output_tokens;
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Tokenizer, Usage};
use tollgate_upstream::{Payload, TextChunk};

/// Assumed maximum number of bytes per token. Only long runs of one character exceed it.
pub(crate) const MAX_BYTES_PER_TOKEN: u64 = 16;

/// Tracker of the cost of one streamed response.
#[derive(Debug)]
pub(crate) struct CostLimit {
    /// Output tokens that the hold pays for.
    tokens: u64,
    /// Assumed maximum number of bytes per token.
    bytes_per_token: u64,
    /// Maximum cost of the whole response.
    amount: Credits,
    /// Number of events with output so far.
    events: u64,
    /// Number of bytes in these events.
    bytes: u64,
    /// Choices that have started, each with whether it has ended.
    choices: Vec<(u32, bool)>,
}

impl CostLimit {
    /// Creates the limit that a quote for `n` choices covers.
    pub(crate) fn new(quote: &Quote, n: u64) -> Self {
        Self {
            tokens: quote.output_cap.saturating_mul(n.max(1)),
            bytes_per_token: MAX_BYTES_PER_TOKEN,
            amount: quote.amount,
            events: 0,
            bytes: 0,
            choices: Vec::new(),
        }
    }

    /// Creates a limit on the number of output tokens, regardless of their cost.
    pub(crate) fn from_tokens(tokens: u64) -> Self {
        Self {
            tokens,
            bytes_per_token: Tokenizer::MAX_TOKEN_BYTES,
            amount: Credits::MAX,
            events: 0,
            bytes: 0,
            choices: Vec::new(),
        }
    }

    /// Records a chunk. Returns whether it exceeds the limit before the upstream has ended all
    /// choices. `cost` returns the cost of a usage report.
    pub(crate) fn is_exceeded_by(&mut self, chunk: &TextChunk, cost: impl FnOnce(&Usage) -> Credits) -> bool {
        self.events += u64::from(chunk.output_bytes > 0);
        self.bytes = self.bytes.saturating_add(chunk.output_bytes);
        let is_reported = chunk
            .usage
            .as_ref()
            .is_some_and(|usage| cost(usage) > self.amount);
        let is_exceeded = is_reported || self.min_tokens() > self.tokens;
        let has_ended = !self.choices.is_empty() && self.choices.iter().all(|(_, ended)| *ended);
        if is_exceeded && !has_ended {
            return true;
        }
        if let Some(Payload::Common(event)) = &chunk.payload {
            self.track_choice(event);
        }
        false
    }

    fn min_tokens(&self) -> u64 {
        min_tokens(self.events, self.bytes, self.bytes_per_token)
    }

    fn track_choice(&mut self, event: &StreamEvent) {
        let Some(choice) = event.choice() else { return };
        let is_finish = matches!(event, StreamEvent::Finish { .. });
        match self.choices.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, ended)) => *ended |= is_finish,
            None => self.choices.push((choice, is_finish)),
        }
    }

    /// Returns `Finish` events (reason `length`) for the choices that have not ended.
    pub(crate) fn missing_finishes(&self) -> impl Iterator<Item = StreamEvent> {
        let first = self.choices.is_empty().then_some(0);
        let open = self
            .choices
            .iter()
            .filter(|(_, ended)| !ended)
            .map(|(choice, _)| *choice);
        first.into_iter().chain(open).map(|choice| StreamEvent::Finish {
            choice,
            reason: FinishReason::Length,
            stop_sequence: None,
        })
    }
}

/// Returns the minimum number of tokens in `events` events with `bytes` bytes. An event has at
/// least one token, unless the server splits tokens over several events; so the estimate from the
/// bytes caps the number of events.
pub(crate) fn min_tokens(events: u64, bytes: u64, bytes_per_token: u64) -> u64 {
    let by_events = events.min(output_tokens(bytes));
    by_events.max(bytes / bytes_per_token)
}

#[cfg(test)]
mod tests {
    use tollgate_upstream::ChunkKind;

    use super::*;

    fn cost_limit(tokens: u64, n: u64) -> CostLimit {
        let quote = Quote {
            amount: Credits::from_nanos(100),
            output_cap: tokens,
            must_clamp: true,
        };
        CostLimit::new(&quote, n)
    }

    fn event(event: StreamEvent, output_bytes: u64) -> TextChunk {
        TextChunk {
            kind: ChunkKind::Content,
            payload: Some(Payload::Common(Box::new(event))),
            usage: None,
            output_bytes,
        }
    }

    fn text_chunk(choice: u32, bytes: usize) -> TextChunk {
        let text = "x".repeat(bytes);
        let logprobs = None;
        event(
            StreamEvent::Text {
                choice,
                text,
                logprobs,
            },
            bytes as u64,
        )
    }

    fn ended(choice: u32) -> TextChunk {
        let (reason, stop_sequence) = (FinishReason::Stop, None);
        event(
            StreamEvent::Finish {
                choice,
                reason,
                stop_sequence,
            },
            0,
        )
    }

    fn report(output: u64) -> TextChunk {
        TextChunk {
            kind: ChunkKind::Usage,
            payload: None,
            usage: Some(Usage::tokens(0, output)),
            output_bytes: 0,
        }
    }

    fn passes(cost_limit: &mut CostLimit, chunk: &TextChunk) -> bool {
        cost_limit.is_exceeded_by(chunk, |usage| Credits::from_nanos(usage.total_output() as i64))
    }

    #[test]
    fn events_count_as_tokens_up_to_the_byte_estimate() {
        // bytes per event, and the first event that exceeds ten tokens
        for (bytes, expected) in [
            (1, 41),
            (2, 21),
            (4, 11),
            (6, 11),
            (15, 11),
            (16, 11),
            (40, 5),
            (200, 1),
        ] {
            let mut cost_limit = cost_limit(10, 1);
            let first = (1..100).find(|_| passes(&mut cost_limit, &text_chunk(0, bytes)));
            assert_eq!(first, Some(expected), "{bytes}");
        }
    }

    #[test]
    fn each_requested_answer_has_its_own_tokens() {
        let mut cost_limit = cost_limit(10, 2);
        let first = (1..100).find(|number| passes(&mut cost_limit, &text_chunk(number % 2, 4)));
        assert_eq!(first, Some(21));
    }

    #[test]
    fn a_report_above_the_quote_exceeds_the_limit() {
        let mut cost_limit = cost_limit(1_000, 1);
        assert!(!passes(&mut cost_limit, &text_chunk(0, 4)));
        assert!(!passes(&mut cost_limit, &report(100)));
        assert!(passes(&mut cost_limit, &report(101)));
    }

    #[test]
    fn choices_end_once() {
        let mut cost_limit = cost_limit(1, 1);
        let missing_finishes = |cost_limit: &CostLimit| -> Vec<u32> {
            cost_limit
                .missing_finishes()
                .filter_map(|event| event.choice())
                .collect()
        };
        assert_eq!(missing_finishes(&cost_limit), [0]);
        assert!(!passes(&mut cost_limit, &text_chunk(3, 4)));
        assert!(!passes(&mut cost_limit, &ended(3)));
        assert!(missing_finishes(&cost_limit).is_empty());
        assert!(!passes(&mut cost_limit, &report(500)), "it has ended by itself");
        let refusal = StreamEvent::Refusal {
            choice: 1,
            text: String::new(),
        };
        assert!(!passes(&mut cost_limit, &event(refusal, 0)));
        assert_eq!(missing_finishes(&cost_limit), [1]);
        assert!(
            passes(&mut cost_limit, &report(500)),
            "another choice has started"
        );
    }
}
