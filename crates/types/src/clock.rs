//! The only place that reads the time; everything else is handed a [`Clock`].

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant this many microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This instant moved forward; saturates at the end of time.
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// This instant moved back; saturates at the beginning of time.
    pub fn minus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Time from `earlier` to this instant; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.cast_unsigned())
    }

    /// The instant that a text says: RFC 3339 (`2026-11-20T13:30:00Z`), or a date (`2026-11-20`), which is its midnight in
    /// UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let of_date = || {
            let date = text.parse::<jiff::civil::Date>().ok()?;
            Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        };
        let instant = text.parse::<jiff::Timestamp>().ok().or_else(of_date)?;
        Some(Self(instant.as_microsecond()))
    }

    /// RFC 3339 text in UTC, such as `2026-11-20T13:30:00.000001Z`.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => instant.to_string(),
            Err(_) => self.0.to_string(),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// A clock that never goes back, in microseconds from an arbitrary start. Windows, time-outs and
    /// measured spans use it.
    fn monotonic_micros(&self) -> u64;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn default() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic_micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when told to. For tests.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self {
            micros: AtomicI64::new(start.0),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::SeqCst))
    }

    fn monotonic_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst).max(0).cast_unsigned()
    }
}
