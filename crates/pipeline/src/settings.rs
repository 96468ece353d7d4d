//! Figures that operators may change and tests make small.

use std::time::Duration;

/// All of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// When to try again.
    pub retries: Retries,
    /// What happens to the answer of a caller that left.
    pub drain: Drain,
}

impl Settings {
    /// After which a call that nobody resolved is taken for dead. Twice the longest one: the sweep must never release
    /// the hold of a call that still runs.
    pub fn hold_lifetime(&self) -> Duration {
        (self.timeouts.total + self.drain.time) * 2
    }
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the upstream's response headers.
    pub headers: Duration,
    /// Until the first content of a stream, when the model reasons before it answers.
    pub first_content_reasoning: Duration,
    /// Until the first content of a stream otherwise.
    pub first_content: Duration,
    /// How long the response headers are kept back for the first content: until then the call can be tried elsewhere.
    pub commit: Duration,
    /// Between two events of a stream.
    pub idle: Duration,
    /// For the whole call.
    pub total: Duration,
    /// How long a caller may not read before it counts as gone.
    pub write_stall: Duration,
    /// Between two signs of life to a caller that waits for the next event.
    pub ping: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(60),
            first_content_reasoning: Duration::from_secs(300),
            first_content: Duration::from_secs(60),
            commit: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(15 * 60),
            write_stall: Duration::from_secs(60),
            ping: Duration::from_secs(15),
        }
    }
}

/// When to try again, and when to leave a candidate alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts beyond the first.
    pub extra_attempts: u32,
    /// Share of the requests of the last ten seconds that may be retries, in percent.
    pub budget_percent: u32,
    /// Retries a second that are allowed whatever the share.
    pub budget_per_second: u32,
    /// Wait before the second attempt at the same candidate; it doubles, with full jitter.
    pub backoff: Duration,
    /// The longest such wait.
    pub backoff_cap: Duration,
    /// The longest wait that an upstream may ask for; beyond it the call goes elsewhere.
    pub retry_after_cap: Duration,
    /// Failures in a row that open the breaker.
    pub breaker_consecutive: u32,
    /// Failures in ten seconds, in percent, that open the breaker.
    pub breaker_percent: u32,
    /// Calls in ten seconds below which the share says nothing.
    pub breaker_least_calls: u32,
    /// How long the breaker stays open at first; it doubles.
    pub breaker_open: Duration,
    /// The longest it stays open.
    pub breaker_open_cap: Duration,
    /// Between two probes of an open breaker whose time is over.
    pub probe_interval: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            extra_attempts: 2,
            budget_percent: 20,
            budget_per_second: 3,
            backoff: Duration::from_millis(50),
            backoff_cap: Duration::from_secs(2),
            retry_after_cap: Duration::from_secs(5),
            breaker_consecutive: 5,
            breaker_percent: 50,
            breaker_least_calls: 20,
            breaker_open: Duration::from_secs(30),
            breaker_open_cap: Duration::from_secs(300),
            probe_interval: Duration::from_secs(5),
        }
    }
}

/// What happens to the answer of a caller that left: it is read to its end, within bounds, so that the charge is what
/// the upstream reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Answers read at once.
    pub most: usize,
    /// How long one is read.
    pub time: Duration,
    /// How much of one is read.
    pub bytes: u64,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            most: 64,
            time: Duration::from_secs(120),
            bytes: 4 * 1024 * 1024,
        }
    }
}
