//! Timeouts and limits that operators can configure.

use std::time::Duration;

/// Settings of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Timeouts of upstream calls and of callers.
    pub timeouts: Timeouts,
    /// Retries and circuit breaker.
    pub retries: Retries,
    /// Draining of answers whose callers have left.
    pub drain: Drain,
}

impl Settings {
    /// Time after which an unresolved hold counts as abandoned. Twice the longest call: the sweep
    /// must never release the hold of a running call.
    pub fn hold_lifetime(&self) -> Duration {
        (self.timeouts.total + self.drain.time) * 2
    }
}

/// Timeouts of upstream calls and of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the upstream's response headers.
    pub headers: Duration,
    /// Until the first content of a stream, for reasoning models.
    pub first_content_reasoning: Duration,
    /// Until the first content of a stream, for other models.
    pub first_content: Duration,
    /// Maximum time to hold back the response headers for the first content. Until then another
    /// candidate can be tried.
    pub commit: Duration,
    /// Between two events of a stream.
    pub idle: Duration,
    /// For the whole call.
    pub total: Duration,
    /// Time without a read after which a caller counts as gone.
    pub write_stall: Duration,
    /// Interval of keep-alives to a caller that waits for the next event.
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

/// Retries and circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Maximum attempts after the first.
    pub extra_attempts: u32,
    /// Share of the requests of the last ten seconds that may be retries, in percent.
    pub budget_percent: u32,
    /// Retries per second that are allowed in any case.
    pub budget_per_second: u32,
    /// Wait before the second attempt at the same candidate; doubles, with full jitter.
    pub backoff: Duration,
    /// Upper limit of the doubled wait.
    pub backoff_cap: Duration,
    /// Maximum `retry_after` to wait for at the same candidate; beyond it the call fails.
    pub retry_after_cap: Duration,
    /// Consecutive failures that open the breaker.
    pub breaker_consecutive: u32,
    /// Failure rate over ten seconds, in percent, that opens the breaker.
    pub breaker_percent: u32,
    /// Minimum calls in ten seconds for the failure rate to count.
    pub breaker_min_calls: u32,
    /// Initial open time of the breaker; doubles each time.
    pub breaker_open: Duration,
    /// Maximum open time of the breaker.
    pub breaker_open_cap: Duration,
    /// Interval between probes after the open time.
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
            breaker_min_calls: 20,
            breaker_open: Duration::from_secs(30),
            breaker_open_cap: Duration::from_secs(300),
            probe_interval: Duration::from_secs(5),
        }
    }
}

/// Draining of answers whose callers have left: they are read to the end, within limits, so that
/// the charge follows the upstream's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Maximum answers drained concurrently.
    pub max_concurrent: usize,
    /// Maximum time to drain one answer.
    pub time: Duration,
    /// Maximum bytes to drain of one answer.
    pub bytes: u64,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            time: Duration::from_secs(120),
            bytes: 4 * 1024 * 1024,
        }
    }
}
