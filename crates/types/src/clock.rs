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

/// A clock that goes on evenly from what it was set to, whatever is done to the machine's. It starts with the machine's time.
#[derive(Debug)]
pub struct SteadyClock {
    machine: SystemClock,
    /// What it showed at the start of the monotonic clock.
    start: AtomicI64,
}

impl Default for SteadyClock {
    fn default() -> Self {
        let machine = SystemClock::default();
        let start = AtomicI64::new(machine.now().0);
        Self { machine, start }
    }
}

impl SteadyClock {
    /// Sets it; answers by how many microseconds it was set forward, or back.
    pub fn set(&self, now: Timestamp) -> i64 {
        let forward = now.0.saturating_sub(self.now().0);
        self.start.fetch_add(forward, Ordering::Relaxed);
        forward
    }

    /// The machine's time, from which this one may differ.
    pub fn machine(&self) -> Timestamp {
        self.machine.now()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.monotonic_micros()).unwrap_or(i64::MAX);
        Timestamp(self.start.load(Ordering::Relaxed).saturating_add(elapsed))
    }

    fn monotonic_micros(&self) -> u64 {
        self.machine.monotonic_micros()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, SteadyClock, Timestamp};

    #[test]
    fn a_steady_clock_shows_what_it_was_set_to() {
        let clock = SteadyClock::default();
        assert!(clock.machine().since(clock.now()) < Duration::from_secs(5));
        let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
        let second = clock.now().plus(Duration::from_secs(1));
        assert!((900_000..=1_000_000).contains(&clock.set(second)));
        let noon = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        clock.set(noon);
        assert!(clock.now() >= noon && clock.now().since(noon) < minute);
        assert!(clock.set(noon.minus(hour)) < 0);
        assert!(clock.now() < noon);
    }
}
