//! Calendar dates without a time and a time zone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A date of the Gregorian calendar, from year 1 to 9999. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Date(jiff::civil::Date);

impl Date {
    /// Creates a date; `None` if it does not exist.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let (year, month, day) = (
            i16::try_from(year).ok()?,
            i8::try_from(month).ok()?,
            i8::try_from(day).ok()?,
        );
        let date = jiff::civil::Date::new(year, month, day).ok()?;
        (year >= 1).then_some(Self(date))
    }

    /// Parses `YYYY-MM-DD`. Text after a `T` or a space, such as a time, is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, _) = text.split_once(['T', ' ']).unwrap_or((text, ""));
        let mut parts = date.split('-');
        let mut part = |length: usize| {
            let part = parts
                .next()
                .filter(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))?;
            part.parse::<u16>().ok()
        };
        let (year, month, day) = (part(4)?, part(2)?, part(2)?);
        match parts.next() {
            None => Self::new(year, u8::try_from(month).ok()?, u8::try_from(day).ok()?),
            Some(_) => None,
        }
    }

    /// Returns the date of a time in UTC; `None` for years before 1 and after 9999.
    pub fn of(time: Timestamp) -> Option<Self> {
        let date = jiff::Timestamp::from_second(time.as_seconds()).ok()?;
        let date = date.to_zoned(jiff::tz::TimeZone::UTC).date();
        (date.year() >= 1).then_some(Self(date))
    }

    /// Returns the year, 1 to 9999.
    pub fn year(self) -> u16 {
        self.0.year().unsigned_abs()
    }

    /// Returns the month, 1 to 12.
    pub fn month(self) -> u8 {
        self.0.month().unsigned_abs()
    }

    /// Returns the day of the month, 1 to 31.
    pub fn day(self) -> u8 {
        self.0.day().unsigned_abs()
    }

    /// Returns the date this number of days earlier; the first possible date if there is none.
    #[must_use]
    pub fn minus_days(self, days: u32) -> Self {
        let earlier = self.0.checked_sub(jiff::Span::new().days(days.min(4_000_000)));
        let earlier = earlier.ok().filter(|date| date.year() >= 1);
        Self(earlier.unwrap_or(jiff::civil::date(1, 1, 1)))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year(), self.month(), self.day())
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("'{text}' is not a date"))
    }
}

#[cfg(test)]
mod tests {
    use super::Date;
    use crate::Timestamp;

    #[test]
    fn existing_dates_are_parsed() {
        for (text, date) in [
            ("1970-01-01", (1970, 1, 1)),
            ("2000-02-29", (2000, 2, 29)),
            ("2026-11-29T23:59:59Z", (2026, 11, 29)),
            ("1969-12-31 10:00", (1969, 12, 31)),
            ("0001-01-01", (1, 1, 1)),
        ] {
            let parsed = Date::parse(text).unwrap();
            assert_eq!((parsed.year(), parsed.month(), parsed.day()), date, "{text}");
            assert_eq!(parsed.to_string(), text[..10]);
        }
        assert!(Date::parse("2026-11-29") > Date::parse("2026-10-30"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "1900-02-29",
            "26-01-01",
            "2026-1-1",
            "+026-01-01",
            "0000-01-01",
            "2026-01-01-01",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn days_are_subtracted() {
        let date = Date::of(Timestamp::parse("2026-03-01T00:00:00Z").unwrap()).unwrap();
        assert_eq!(date.minus_days(1), Date::new(2026, 2, 28).unwrap());
        assert_eq!(date.minus_days(u32::MAX), Date::new(1, 1, 1).unwrap());
    }
}
