//! The results of the load tool, and its one line of output.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Result of one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// `closed`, `open` or `hold`.
    pub mode: String,
    /// Number of connections (streams in `hold`).
    pub connections: usize,
    /// Measured time in seconds.
    pub seconds: f64,
    /// Number of complete answers with status 200.
    pub ok: u64,
    /// Number of all other answers.
    pub bad: u64,
    /// Number of good answers before the measurement.
    pub warm: u64,
    /// Scheduled requests of the open loop that were skipped because the server was seconds behind.
    pub missed: u64,
    /// Good answers per second.
    pub rps: f64,
    /// Content chunks received.
    pub chunks: u64,
    /// `hold`: peak number of open streams.
    pub peak_live: u64,
    /// From the send (open loop: from the scheduled instant) to the end of the answer.
    pub latency: Quantiles,
    /// From the send to the first byte of a stream's body.
    pub first_byte: Quantiles,
    /// From the stub's write of a content chunk to its arrival here.
    pub transit: Quantiles,
    /// The fault of the first bad answer.
    pub first_bad: Option<String>,
}

/// A distribution in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of samples.
    pub count: u64,
    /// Median in microseconds.
    pub p50: f64,
    /// 95th percentile in microseconds.
    pub p95: f64,
    /// 99th percentile in microseconds.
    pub p99: f64,
    /// Maximum in microseconds.
    pub max: f64,
    /// Mean in microseconds.
    pub mean: f64,
}

/// Durations of one kind, stored to three digits.
pub(super) struct Durations(Option<Histogram<u64>>);

impl Durations {
    fn new() -> Durations {
        // 100 ns to 2 minutes; the bounds are constants that the library accepts, so `None` does
        // not happen.
        Durations(Histogram::new_with_bounds(100, 120_000_000_000, 3).ok())
    }

    pub(super) fn record(&mut self, nanoseconds: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(nanoseconds);
        }
    }

    fn merge(&mut self, other: &Durations) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Equal bounds on both sides: adding cannot fail.
            let _ = histogram.add(other);
        }
    }

    fn quantiles(&self) -> Quantiles {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return Quantiles::default();
        };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Quantiles {
            count: histogram.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: histogram.max() as f64 / 1e3,
            mean: histogram.mean() / 1e3,
        }
    }
}

/// Counts and durations of one thread.
pub(super) struct Tally {
    pub(super) latency: Durations,
    pub(super) first_byte: Durations,
    pub(super) transit: Durations,
    pub(super) ok: u64,
    pub(super) bad: u64,
    pub(super) warm: u64,
    pub(super) missed: u64,
    pub(super) chunks: u64,
    pub(super) peak_live: u64,
    pub(super) first_bad: Option<String>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            latency: Durations::new(),
            first_byte: Durations::new(),
            transit: Durations::new(),
            ok: 0,
            bad: 0,
            warm: 0,
            missed: 0,
            chunks: 0,
            peak_live: 0,
            first_bad: None,
        }
    }

    pub(super) fn fail(&mut self, why: String) {
        self.bad += 1;
        self.first_bad.get_or_insert(why);
    }

    pub(super) fn merge(&mut self, other: Tally) {
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        self.transit.merge(&other.transit);
        self.ok += other.ok;
        self.bad += other.bad;
        self.warm += other.warm;
        self.missed += other.missed;
        self.chunks += other.chunks;
        self.first_bad = self.first_bad.take().or(other.first_bad);
    }

    pub(super) fn report(self, options: &super::Options, seconds: f64) -> Report {
        Report {
            mode: options.mode.name().to_owned(),
            connections: options.connections,
            seconds,
            ok: self.ok,
            bad: self.bad,
            warm: self.warm,
            missed: self.missed,
            rps: self.ok as f64 / seconds.max(1e-9),
            chunks: self.chunks,
            peak_live: self.peak_live,
            latency: self.latency.quantiles(),
            first_byte: self.first_byte.quantiles(),
            transit: self.transit.quantiles(),
            first_bad: self.first_bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_tallies_add_up() {
        let mut all = Tally::new();
        for nanoseconds in [1_000_000, 2_000_000, 3_000_000] {
            let mut one = Tally::new();
            one.latency.record(nanoseconds);
            one.ok = 1;
            all.merge(one);
        }
        let mut failed = Tally::new();
        failed.fail("first".to_owned());
        failed.fail("second".to_owned());
        all.merge(failed);
        let quantiles = all.latency.quantiles();
        assert_eq!((all.ok, all.bad, quantiles.count), (3, 2, 3));
        assert_eq!(all.first_bad.as_deref(), Some("first"));
        assert!((quantiles.p50 - 2_000.0).abs() < 2.0, "{quantiles:?}");
        assert_eq!(Tally::new().first_byte.quantiles(), Quantiles::default());
    }
}
