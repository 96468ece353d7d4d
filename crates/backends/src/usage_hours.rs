//! SQL of usage hours that SQLite and PostgreSQL share.

use std::collections::BTreeMap;

use tollgate_storage::{HourDifference, HourSums, Result, StorageError};
use tollgate_types::{AccountId, Credits};

use crate::columns::columns;
use crate::rows::{canonical_model, id_from, quantity_from};

/// Lists accounts whose newest row is not before their mark.
pub(crate) const BEHIND: &str = "SELECT account.id AS id FROM account \
    LEFT JOIN usage_hour_mark AS mark ON mark.account_id = account.id \
    WHERE account.id > $1 AND account.test_clock IS NULL AND coalesce(mark.until, 0) < $2 \
    AND (SELECT created_at FROM usage_row WHERE usage_row.account_id = account.id ORDER BY usage_row.id DESC LIMIT 1) \
    >= coalesce(mark.until, 0) ORDER BY account.id LIMIT $3";
/// Selects the creation time of the row `$3` rows after the first one with an id from `$2` on.
pub(crate) const ROW_AT: &str = "SELECT created_at FROM usage_row WHERE account_id = $1 AND id >= $2 \
    ORDER BY id LIMIT 1 OFFSET $3";
/// Sums the rows created at or after `$2` and before `$3`, with ids from `$4` to `$5`.
pub(crate) const SUM: &str = concat!(
    "INSERT INTO usage_hour (account_id, hour, model, key_id, member_id, endpoint, requests, charge, input, cache_read, \
    cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, image, video, audio, characters, \
    searches, input_image, cache_read_audio) SELECT account_id, created_at / 3600000000 * 3600000000, ",
    canonical_model!("usage_row"),
    ", coalesce(key_id, substr(account_id, 1, 0)), coalesce(member_id, substr(account_id, 1, 0)), endpoint, count(*), \
    CAST(sum(charge) AS BIGINT), CAST(sum(input) AS BIGINT), CAST(sum(cache_read) AS BIGINT), \
    CAST(sum(cache_write) AS BIGINT), CAST(sum(input_audio) AS BIGINT), CAST(sum(output) AS BIGINT), \
    CAST(sum(reasoning) AS BIGINT), CAST(sum(output_audio) AS BIGINT), CAST(sum(cache_write_1h) AS BIGINT), \
    CAST(sum(image) AS BIGINT), CAST(sum(video) AS BIGINT), CAST(sum(audio) AS BIGINT), CAST(sum(characters) AS BIGINT), \
    CAST(sum(searches) AS BIGINT), CAST(sum(input_image) AS BIGINT), CAST(sum(cache_read_audio) AS BIGINT) \
    FROM usage_row WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 AND id >= $4 AND id <= $5 \
    GROUP BY 1, 2, 3, 4, 5, 6"
);
/// Sums the rows of each account before its mark.
pub(crate) const ROW_SUMS: &str = "SELECT mark.account_id AS account_id, count(*) AS requests, \
    CAST(sum(charge) AS BIGINT) AS charge FROM usage_hour_mark AS mark \
    CROSS JOIN usage_row WHERE usage_row.account_id = mark.account_id AND created_at < until GROUP BY mark.account_id";
/// Sums the usage hours of each account.
pub(crate) const HOUR_SUMS: &str = "SELECT account_id, CAST(sum(requests) AS BIGINT) AS requests, \
    CAST(sum(charge) AS BIGINT) AS charge FROM usage_hour GROUP BY account_id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[BEHIND, ROW_AT, SUM, ROW_SUMS, HOUR_SUMS];

columns! {
    /// Sums of an account.
    pub(crate) struct SumColumns {
        account_id: Vec<u8>,
        requests: i64,
        charge: i64,
    }
}

impl TryFrom<SumColumns> for (AccountId, HourSums) {
    type Error = StorageError;

    fn try_from(columns: SumColumns) -> Result<Self> {
        let sums = HourSums {
            requests: quantity_from(columns.requests)?,
            charge: Credits::from_nanos(columns.charge),
        };
        Ok((AccountId::from_u128(id_from(&columns.account_id)?), sums))
    }
}

/// Returns the accounts whose sums differ.
pub(crate) fn differences(
    rows: Vec<(AccountId, HourSums)>,
    hours: Vec<(AccountId, HourSums)>,
) -> Vec<HourDifference> {
    let mut both: BTreeMap<AccountId, [HourSums; 2]> = BTreeMap::new();
    for (account, sums) in rows {
        both.entry(account).or_default()[0] = sums;
    }
    for (account, sums) in hours {
        both.entry(account).or_default()[1] = sums;
    }
    both.retain(|_, [rows, hours]| rows != hours);
    let differences = both.into_iter();
    differences
        .map(|(account, [rows, hours])| HourDifference { account, hours, rows })
        .collect()
}
