//! Timestamps and clocks. Only this module reads the system time; all other code receives a
//! [`Clock`].

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns whole seconds since the Unix epoch.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Adds a duration; saturates at the maximum.
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Subtracts a duration; saturates at the minimum.
    pub fn minus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.cast_unsigned())
    }

    /// Parses RFC 3339 (`2026-11-20T13:30:00Z`) or a date (`2026-11-20`, midnight UTC). `None` if
    /// the text is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let of_date = || {
            let date = text.parse::<jiff::civil::Date>().ok()?;
            Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        };
        let instant = text.parse::<jiff::Timestamp>().ok().or_else(of_date)?;
        Some(Self(instant.as_microsecond()))
    }

    /// Formats the time as RFC 3339 in UTC, such as `2026-11-20T13:30:00.000001Z`; as the number of
    /// microseconds if the year is outside −9999 to 9999.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => instant.to_string(),
            Err(_) => self.0.to_string(),
        }
    }
}

impl Timestamp {
    /// Formats the time as an HTTP date (RFC 9110, 5.6.7), such as `Fri, 20 Nov 2026 13:30:00 GMT`.
    /// Empty for years before 0 and after 9999.
    pub fn to_http_date(self) -> String {
        let instant = jiff::Timestamp::from_second(self.as_seconds());
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        instant
            .and_then(|instant| printer.timestamp_to_rfc9110_string(&instant))
            .unwrap_or_default()
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Source of the current time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;

    /// Returns microseconds since an arbitrary start. The value never decreases. Rate-limit
    /// windows, timeouts and durations use it.
    fn monotonic_micros(&self) -> u64;
}

/// Clock of the machine.
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

/// Wall clock that advances with the monotonic clock, so that changes of the machine's clock do not
/// affect it. The initial time is the machine's.
#[derive(Debug)]
pub struct SteadyClock {
    machine: SystemClock,
    /// Wall-clock time at monotonic time 0, in microseconds since the epoch.
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
    /// Sets the clock. Returns the change in microseconds, which is negative if the clock was set
    /// back.
    pub fn set(&self, now: Timestamp) -> i64 {
        let forward = now.0.saturating_sub(self.now().0);
        self.start.fetch_add(forward, Ordering::Relaxed);
        forward
    }

    /// Returns the machine's wall-clock time, which may differ from this clock's.
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

/// Clock for tests; its time changes only by [`ManualClock::advance`].
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// Creates a clock whose time is `start`.
    pub fn at(start: Timestamp) -> Self {
        Self {
            micros: AtomicI64::new(start.0),
        }
    }

    /// Advances wall-clock and monotonic time.
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
    fn http_dates_follow_rfc_9110() {
        let instant = Timestamp::parse("1994-11-06T08:49:37.9Z").unwrap();
        assert_eq!(instant.to_http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_http_date(), "");
    }

    #[test]
    fn steady_clock_starts_from_the_time_it_was_set_to() {
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
