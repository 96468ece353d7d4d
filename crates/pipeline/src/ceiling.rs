//! Where the gateway ends a streamed answer whose caller allows it to cost so much and no more. Upstreams are told the cap
//! on output that this pays for; this is for those that do not keep it.

use tollgate_billing::Quote;
use tollgate_billing::quote::output_tokens;
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};
use tollgate_upstream::{Payload, TextChunk};

/// No text has fewer tokens than one for so many bytes, but for long rows of one sign.
const MOST_BYTES_PER_TOKEN: u64 = 16;

/// Watches one answer.
#[derive(Debug)]
pub(crate) struct Ceiling {
    /// Output tokens that are paid for.
    tokens: u64,
    /// What all of it may cost.
    amount: Credits,
    /// Events with output, and the bytes of it.
    events: u64,
    bytes: u64,
    /// Choices that have begun, and whether they have ended.
    choices: Vec<(u32, bool)>,
}

impl Ceiling {
    /// What a quote for `n` answers covers.
    pub(crate) fn new(quote: &Quote, n: u64) -> Self {
        Self {
            tokens: quote.output_cap.saturating_mul(n.max(1)),
            amount: quote.amount,
            events: 0,
            bytes: 0,
            choices: Vec::new(),
        }
    }

    /// Takes an event. Answers whether it is beyond what is paid for, and the answer has not ended by itself. `cost` says
    /// what a report costs.
    pub(crate) fn is_passed_by(&mut self, chunk: &TextChunk, cost: impl FnOnce(&Usage) -> Credits) -> bool {
        self.events += u64::from(chunk.output_bytes > 0);
        self.bytes = self.bytes.saturating_add(chunk.output_bytes);
        let is_reported = chunk
            .usage
            .as_ref()
            .is_some_and(|usage| cost(usage) > self.amount);
        let is_passed = is_reported || self.least_tokens() > self.tokens;
        let has_ended = !self.choices.is_empty() && self.choices.iter().all(|(_, ended)| *ended);
        if is_passed && !has_ended {
            return true;
        }
        if let Some(Payload::Common(event)) = &chunk.payload {
            self.see(event);
        }
        false
    }

    /// An event has at least one token, unless a server cuts texts finer than its model does: so there are no more of them
    /// than are likely in so many bytes.
    fn least_tokens(&self) -> u64 {
        let by_events = self.events.min(output_tokens(self.bytes));
        by_events.max(self.bytes / MOST_BYTES_PER_TOKEN)
    }

    fn see(&mut self, event: &StreamEvent) {
        let Some(choice) = event.choice() else { return };
        let ends = matches!(event, StreamEvent::Finish { .. });
        match self.choices.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, ended)) => *ended |= ends,
            None => self.choices.push((choice, ends)),
        }
    }

    /// The ends of the choices that have none.
    pub(crate) fn ends(&self) -> impl Iterator<Item = StreamEvent> {
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

#[cfg(test)]
mod tests {
    use tollgate_upstream::ChunkKind;

    use super::*;

    fn ceiling(tokens: u64, n: u64) -> Ceiling {
        let quote = Quote {
            amount: Credits::from_nanos(100),
            output_cap: tokens,
            must_clamp: true,
        };
        Ceiling::new(&quote, n)
    }

    fn event(event: StreamEvent, output_bytes: u64) -> TextChunk {
        TextChunk {
            kind: ChunkKind::Content,
            payload: Some(Payload::Common(Box::new(event))),
            usage: None,
            output_bytes,
        }
    }

    fn said(choice: u32, bytes: usize) -> TextChunk {
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

    fn passes(ceiling: &mut Ceiling, chunk: &TextChunk) -> bool {
        ceiling.is_passed_by(chunk, |usage| Credits::from_nanos(usage.total_output() as i64))
    }

    #[test]
    fn events_count_as_tokens_as_far_as_their_bytes_make_it_likely() {
        // bytes of each event, and the first event that is too much for ten tokens
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
            let mut ceiling = ceiling(10, 1);
            let first = (1..100).find(|_| passes(&mut ceiling, &said(0, bytes)));
            assert_eq!(first, Some(expected), "{bytes}");
        }
    }

    #[test]
    fn every_answer_that_was_asked_for_has_its_tokens() {
        let mut ceiling = ceiling(10, 2);
        let first = (1..100).find(|turn| passes(&mut ceiling, &said(turn % 2, 4)));
        assert_eq!(first, Some(21));
    }

    #[test]
    fn a_report_of_more_than_is_paid_for_is_enough() {
        let mut ceiling = ceiling(1_000, 1);
        assert!(!passes(&mut ceiling, &said(0, 4)));
        assert!(!passes(&mut ceiling, &report(100)));
        assert!(passes(&mut ceiling, &report(101)));
    }

    #[test]
    fn choices_end_once() {
        let mut ceiling = ceiling(1, 1);
        let ends =
            |ceiling: &Ceiling| -> Vec<u32> { ceiling.ends().filter_map(|event| event.choice()).collect() };
        assert_eq!(ends(&ceiling), [0]);
        assert!(!passes(&mut ceiling, &said(3, 4)));
        assert!(!passes(&mut ceiling, &ended(3)));
        assert!(ends(&ceiling).is_empty());
        assert!(!passes(&mut ceiling, &report(500)), "it has ended by itself");
        let refusal = StreamEvent::Refusal {
            choice: 1,
            text: String::new(),
        };
        assert!(!passes(&mut ceiling, &event(refusal, 0)));
        assert_eq!(ends(&ceiling), [1]);
        assert!(passes(&mut ceiling, &report(500)), "another has begun");
    }
}
