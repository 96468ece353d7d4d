//! Usage series of both engines: the ranges that are read, and the sum of their results.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_storage::usage_hour::start_of_hour;
use tollgate_storage::{Result, SeriesGroup, SeriesPoint, SeriesQuery, StorageError};
use tollgate_types::{Credits, KeyId, MemberId, Timestamp, Usage};

use crate::columns::columns;
use crate::rows::{QuantityColumns, quantity_from};

/// A half-open range of times in microseconds.
pub(crate) type TimeRange = (i64, i64);

/// Selects the mark of an account.
pub(crate) const MARK: &str = "SELECT until FROM usage_hour_mark WHERE account_id = $1";

/// Splits the range of a query into the summed hours, if there are any, and the rest.
pub(crate) fn split(query: SeriesQuery, mark: Option<i64>) -> (Option<TimeRange>, Vec<TimeRange>) {
    let (from, to) = (query.from.as_micros(), query.to.as_micros());
    let (floor, end) = (start_of_hour(query.from), start_of_hour(query.to).as_micros());
    let start = match floor == query.from {
        true => floor,
        false => floor.plus(Duration::from_hours(1)),
    };
    let (start, end) = (start.as_micros(), end.min(mark.unwrap_or(0)));
    if start >= end {
        return (None, vec![(from, to)]);
    }
    let rest = [(from, start), (end, to)];
    let rest = rest.into_iter().filter(|(from, to)| from < to);
    (Some((start, end)), rest.collect())
}

columns! {
    /// Sums of a group in a span. The group of a key or member is its hexadecimal id.
    pub(crate) struct SeriesColumns {
        start: i64,
        group_name: String,
        requests: i64,
        charge: i64,
    } with {
        quantities: QuantityColumns,
    }
}

/// Sums of a group in a span.
pub(crate) struct SeriesSum {
    start: i64,
    group: String,
    requests: u64,
    charge: i64,
    usage: Usage,
}

impl TryFrom<SeriesColumns> for SeriesSum {
    type Error = StorageError;

    fn try_from(columns: SeriesColumns) -> Result<SeriesSum> {
        Ok(SeriesSum {
            start: columns.start,
            group: columns.group_name,
            requests: quantity_from(columns.requests)?,
            charge: columns.charge,
            usage: columns.quantities.try_into()?,
        })
    }
}

/// Adds up the sums of several queries, sorted by span and group.
pub(crate) fn points(sums: Vec<SeriesSum>, by: Option<SeriesGroup>) -> Vec<SeriesPoint> {
    let mut totals: BTreeMap<(i64, String), (u64, i64, Usage)> = BTreeMap::new();
    for sum in sums {
        let total = totals
            .entry((sum.start, sum.group))
            .or_insert((0, 0, Usage::ZERO));
        total.0 += sum.requests;
        total.1 = total.1.saturating_add(sum.charge);
        total.2 = total.2.plus(&sum.usage);
    }
    let prefix = match by {
        Some(SeriesGroup::Key) => KeyId::PREFIX,
        Some(SeriesGroup::Member) => MemberId::PREFIX,
        Some(SeriesGroup::Model | SeriesGroup::Endpoint) | None => "",
    };
    let point = |((start, mut group), (requests, charge, usage)): ((i64, String), (u64, i64, Usage))| {
        if !group.is_empty() {
            group.insert_str(0, prefix);
        }
        SeriesPoint {
            start: Timestamp::from_micros(start),
            group,
            requests,
            charge: Credits::from_nanos(charge),
            usage,
        }
    };
    totals.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_storage::SeriesStep;

    use super::*;

    #[test]
    fn summed_hours_are_whole() {
        const HOUR: i64 = 3_600_000_000;
        for (from, to, mark, summed, rest) in [
            (0, 5 * HOUR, None, None, &[(0, 5 * HOUR)][..]),
            (0, 5 * HOUR, Some(9 * HOUR), Some((0, 5 * HOUR)), &[]),
            (
                1,
                5 * HOUR + 1,
                Some(9 * HOUR),
                Some((HOUR, 5 * HOUR)),
                &[(1, HOUR), (5 * HOUR, 5 * HOUR + 1)],
            ),
            (
                0,
                5 * HOUR,
                Some(3 * HOUR),
                Some((0, 3 * HOUR)),
                &[(3 * HOUR, 5 * HOUR)],
            ),
            (HOUR, 5 * HOUR, Some(HOUR), None, &[(HOUR, 5 * HOUR)]),
            (1, HOUR - 1, Some(9 * HOUR), None, &[(1, HOUR - 1)]),
        ] {
            let query = SeriesQuery {
                from: Timestamp::from_micros(from),
                to: Timestamp::from_micros(to),
                step: SeriesStep::Day,
                by: None,
            };
            assert_eq!(
                split(query, mark),
                (summed, rest.to_vec()),
                "{from} {to} {mark:?}"
            );
        }
    }
}
