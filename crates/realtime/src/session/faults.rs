//! Limit of invalid events.

use std::time::Duration;

use tokio::time::Instant;

/// Number of invalid events within a minute after which a session is closed.
const MAX_FAULTS: usize = 20;

/// Times of the invalid events of the last minute.
#[derive(Default)]
pub(crate) struct Faults(Vec<Instant>);

impl Faults {
    /// Reason with which the session is closed.
    pub(crate) const REASON: &'static str = "20 events within a minute were invalid.";

    /// Counts an invalid event. Returns whether the session has to be closed.
    pub(crate) fn add(&mut self, now: Instant) -> bool {
        self.0
            .retain(|at| now.duration_since(*at) < Duration::from_mins(1));
        self.0.push(now);
        self.0.len() >= MAX_FAULTS
    }
}
