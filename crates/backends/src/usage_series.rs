//! Usage series: parts of both engines.

use std::collections::BTreeMap;

use tollgate_storage::{Result, SeriesGroup, SeriesPoint, StorageError};
use tollgate_types::{Credits, KeyId, MemberId, Timestamp, Usage};

use crate::columns::columns;
use crate::rows::{QuantityColumns, quantity_from};

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
