//! Stage 4: what was consumed. A report by the upstream is the truth; the bytes that arrived stand in for it.

use tollgate_billing::Evidence;
use tollgate_types::{Timestamp, Usage};
use tollgate_upstream::{ChunkKind, TextChunk};

/// Observes a call from its first byte to its end.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    reported: Option<Usage>,
    output_bytes: u64,
    first_at: Option<Timestamp>,
}

impl Meter {
    /// A whole answer arrived.
    pub(crate) fn whole(&mut self, reported: Option<Usage>, output_bytes: u64, now: Timestamp) {
        self.reported = reported;
        self.output_bytes = output_bytes;
        self.first_at = Some(now);
    }

    /// An event arrived. Reports are cumulative: the last one counts.
    pub(crate) fn chunk(&mut self, chunk: &TextChunk, now: impl FnOnce() -> Timestamp) {
        if chunk.usage.is_some() {
            self.reported = chunk.usage;
        }
        self.output_bytes = self.output_bytes.saturating_add(chunk.output_bytes);
        if self.first_at.is_none() && chunk.kind == ChunkKind::Content {
            self.first_at = Some(now());
        }
    }

    /// When the first content arrived.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.first_at
    }

    /// What is known now.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence {
            reported: self.reported,
            output_bytes: self.output_bytes,
        }
    }
}
