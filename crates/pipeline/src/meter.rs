//! Stage 4: measures consumption. A usage report of the upstream takes precedence over an estimate
//! from the output bytes.

use tollgate_billing::Evidence;
use tollgate_types::{Timestamp, Unit, Usage};
use tollgate_upstream::{ChunkKind, TextChunk};

use crate::cost_limit::{MAX_BYTES_PER_TOKEN, min_tokens};

/// Measurements of a call, from its first byte to its end.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    reported: Option<Usage>,
    output_bytes: u64,
    has_several: bool,
    /// Number of events with output.
    events: u64,
    /// Minimum number of output tokens to charge if the upstream reported usage.
    min_output: u64,
    first_at: Option<Timestamp>,
    has_finished: bool,
}

impl Meter {
    /// Creates the meter of a failed call, with the usage that the upstream reported.
    pub(crate) fn failed(reported: Option<Usage>) -> Self {
        Self {
            reported,
            ..Self::default()
        }
    }

    /// Records a complete response with at least `min_output` output tokens.
    pub(crate) fn whole(
        &mut self,
        reported: Option<Usage>,
        min_output: u64,
        output_bytes: u64,
        now: Timestamp,
    ) {
        self.min_output = min_output;
        self.reported = reported;
        self.output_bytes = output_bytes;
        self.first_at = Some(now);
    }

    /// Records a chunk of a stream. Usage reports are cumulative: the last one counts.
    pub(crate) fn chunk(&mut self, chunk: &TextChunk, now: impl FnOnce() -> Timestamp) {
        if chunk.usage.is_some() {
            self.reported = chunk.usage;
        }
        self.output_bytes = self.output_bytes.saturating_add(chunk.output_bytes);
        self.events += u64::from(chunk.output_bytes > 0);
        if self.has_several {
            self.min_output = min_tokens(self.events, self.output_bytes, MAX_BYTES_PER_TOKEN);
        }
        self.has_finished |= chunk.kind == ChunkKind::Finish;
        let is_content = matches!(chunk.kind, ChunkKind::Content | ChunkKind::Finish);
        if self.first_at.is_none() && is_content {
            self.first_at = Some(now());
        }
    }

    /// Whether all choices of the streamed response have ended and usage was reported. Such a call
    /// counts as complete, even if the rest of its stream does not arrive.
    pub(crate) fn has_completed(&self) -> bool {
        self.has_finished && self.reported.is_some()
    }

    /// Returns the time of the first content.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.first_at
    }

    /// Creates a meter for a call with `n` choices.
    pub(crate) fn for_answers(n: u64) -> Self {
        Self {
            has_several: n > 1,
            ..Self::default()
        }
    }

    /// Whether the reported output is below the minimum for several choices, so that the gateway
    /// adds the difference.
    pub(crate) fn is_underreported(&self) -> bool {
        self.reported
            .is_some_and(|usage| usage.total_output() < self.min_output)
    }

    /// Returns the evidence for the charge, as of now.
    pub(crate) fn evidence(&self) -> Evidence {
        let missing = |usage: &Usage| self.min_output.saturating_sub(usage.total_output());
        let whole = |usage: Usage| {
            usage.with(
                Unit::Output,
                usage.get(Unit::Output).saturating_add(missing(&usage)),
            )
        };
        Evidence {
            reported: self.reported.map(whole),
            output_bytes: self.output_bytes,
            output_events: self.events,
        }
    }
}
