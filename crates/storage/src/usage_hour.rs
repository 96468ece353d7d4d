//! Usage hours: sums of usage rows by the hour of [`UsageRow::created_at`], so that a long
//! [`UsageStore::series`] does not read every row.
//!
//! Each account has a mark: the start of the first hour that is not summed. The mark moves only
//! behind open holds, so that no row is added to a summed hour. Series read summed hours before the
//! mark, and rows from the mark on.
//!
//! [`UsageRow::created_at`]: crate::UsageRow::created_at
//! [`UsageStore::series`]: crate::UsageStore::series

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::usage::MAX_ID_SKEW;

/// Length of an hour in microseconds.
const HOUR_MICROS: i64 = 3_600_000_000;

/// Maximum span of one step, measured from the first row that is not summed.
pub const MAX_STEP: Duration = Duration::from_hours(31 * 24);

/// Number of rows after which a step ends with the current hour.
pub const STEP_ROWS: u32 = 20_000;

/// Returns the start of the hour of a time, in UTC.
pub fn start_of_hour(at: Timestamp) -> Timestamp {
    let micros = at.as_micros();
    Timestamp::from_micros(micros - micros.rem_euclid(HOUR_MICROS))
}

/// Returns the latest possible mark: the start of the hour of `now`, less [`MAX_ID_SKEW`] for
/// requests whose hold is not placed yet, or of the oldest open hold.
pub fn latest_mark(now: Timestamp, oldest_hold: Option<Timestamp>) -> Timestamp {
    let settled = now.minus(MAX_ID_SKEW);
    start_of_hour(oldest_hold.map_or(settled, |oldest| oldest.min(settled)))
}

/// Returns the mark after one step; `None` if the mark cannot move. `first` and `last` are the
/// creation times of the first row from the mark on, and of the row [`STEP_ROWS`] later.
pub fn next_mark(
    mark: Timestamp,
    latest: Timestamp,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
) -> Option<Timestamp> {
    let start = start_of_hour(first?).max(mark);
    let mut next = latest.min(start.plus(MAX_STEP));
    if let Some(last) = last {
        next = next.min(start_of_hour(last).max(start.plus(Duration::from_hours(1))));
    }
    (next > mark).then_some(next)
}

/// Number and charges of usage rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourSums {
    /// Number of usage rows.
    pub requests: u64,
    /// Sum of the charges, including the parts paid by allowances.
    pub charge: Credits,
}

/// A difference between the usage hours of an account and its usage rows before the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourDifference {
    /// Account with the difference.
    pub account: AccountId,
    /// Sums of the usage hours.
    pub hours: HourSums,
    /// Sums of the usage rows.
    pub rows: HourSums,
}

/// Sums usage rows by hour, model, key, member and endpoint. Accounts with a test clock have no
/// sums: an advance of the clock would move the mark past requests that are being accepted.
#[async_trait]
pub trait UsageHourStore: Send + Sync {
    /// Lists up to `limit` accounts with rows from the mark on whose hour can be over, sorted by
    /// id, after the account `after`.
    async fn accounts_behind(
        &self,
        now: Timestamp,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<AccountId>>;

    /// Sums the next hours of an account and moves its mark, in one atomic step of at most
    /// [`MAX_STEP`]; returns whether another step is possible. Concurrent calls sum each hour once.
    async fn advance(&self, account: AccountId, now: Timestamp) -> Result<bool>;

    /// Compares the sums of every account with its rows before the mark, and lists the differences,
    /// sorted by account. Reads all rows.
    async fn differences(&self) -> Result<Vec<HourDifference>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(hours: i64) -> Timestamp {
        Timestamp::from_micros(hours * HOUR_MICROS)
    }

    #[test]
    fn marks_are_behind_open_holds() {
        let half = Duration::from_mins(30);
        for (now, oldest, expected) in [
            (hours(9).plus(half), None, 8),
            (hours(9), None, 8),
            (hours(9), Some(hours(8)), 8),
            (hours(9), Some(hours(4).plus(half)), 4),
        ] {
            assert_eq!(latest_mark(now, oldest), hours(expected));
        }
    }

    #[test]
    fn steps_are_bounded_by_time_and_rows() {
        let step = 31 * 24;
        for (mark, latest, first, last, expected) in [
            // Nothing to sum.
            (5, 9, None, None, None),
            (9, 9, Some(8), None, None),
            (5, 9, Some(5), None, Some(9)),
            (0, 100_000, Some(500), None, Some(500 + step)),
            (600, 100_000, Some(599), None, Some(600 + step)),
            (5, 900, Some(5), Some(40), Some(40)),
            (5, 900, Some(5), Some(5), Some(6)),
        ] {
            let next = next_mark(hours(mark), hours(latest), first.map(hours), last.map(hours));
            assert_eq!(next, expected.map(hours), "{mark} {first:?} {last:?}");
        }
    }
}
