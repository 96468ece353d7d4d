//! Timeouts and limits of the pipeline, from the configuration.

use std::time::Duration;

/// Settings of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Timeouts of upstream calls and of callers.
    pub timeouts: Timeouts,
    /// Retries and circuit breaker.
    pub retries: Retries,
    /// Draining of responses whose callers have disconnected.
    pub drain: Drain,
}

impl Settings {
    /// Returns the time after which an unresolved hold counts as abandoned: twice the total timeout
    /// plus the drain time. This exceeds the duration of any call, so the sweep never releases the
    /// hold of a running call.
    pub fn hold_lifetime(&self) -> Duration {
        (self.timeouts.total + self.drain.time) * 2
    }
}

/// Timeouts of upstream calls and of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of the upstream's response headers.
    pub headers: Duration,
    /// Timeout of the first content of a stream, for reasoning models.
    pub first_content_reasoning: Duration,
    /// Timeout of the first content of a stream, for other models.
    pub first_content: Duration,
    /// Maximum time to delay the response headers until the first content arrives. During this time
    /// another candidate can be tried.
    pub commit: Duration,
    /// Maximum interval between two events of a stream.
    pub idle: Duration,
    /// Timeout of the whole call.
    pub total: Duration,
    /// Time without a read after which a caller counts as disconnected.
    pub write_stall: Duration,
    /// Interval between keep-alives to a caller that waits for the next event.
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
    /// Maximum number of attempts after the first one.
    pub extra_attempts: u32,
    /// Maximum number of retries in ten seconds, in percent of the calls in these ten seconds.
    pub budget_percent: u32,
    /// Number of retries per second that are allowed in addition to `budget_percent`.
    pub budget_per_second: u32,
    /// Maximum delay before the first retry at the same candidate. Doubles with each attempt; the
    /// actual delay is random (full jitter).
    pub backoff: Duration,
    /// Upper limit of the doubled delay.
    pub backoff_cap: Duration,
    /// Maximum `retry_after` to wait for at the same candidate. If it is longer, the call fails.
    pub retry_after_cap: Duration,
    /// Number of consecutive failures that opens the breaker.
    pub breaker_consecutive: u32,
    /// Failure rate in ten seconds, in percent, that opens the breaker.
    pub breaker_percent: u32,
    /// Minimum number of calls in ten seconds for the failure rate to open the breaker.
    pub breaker_min_calls: u32,
    /// Initial open time of the breaker. Doubles each time that the breaker opens without a success
    /// in between.
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

/// Limits on draining. The response to a caller that has disconnected is read to its end within
/// these limits, so that the charge follows the upstream's usage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Maximum number of responses that are drained concurrently.
    pub max_concurrent: usize,
    /// Maximum time to drain one response.
    pub time: Duration,
    /// Maximum number of bytes to drain of one response.
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
