//! Implements [`UsageStore`] on PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use tollgate_storage::{
    Result, UsageFilter, UsageGroup, UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal,
};
use tollgate_types::{AccountId, HoldId, KeyId, RequestId, Timestamp};

use super::Node;
use super::error::corrupt;
use super::pool::Statement;
use super::rows;
use crate::parts::{self, PartColumns};
use crate::rows::{KEYS_LAST_USED, QuantityColumns, UsageColumns, canonical_model, last_use_from};

pub(super) struct UsageRows(pub(super) Arc<Node>);

/// Upstream model: the part of `provider` after the first slash. It is empty for rows that recorded
/// only the provider.
macro_rules! upstream_model {
    () => {
        "CASE strpos(provider, '/') WHEN 0 THEN '' ELSE substr(provider, strpos(provider, '/') + 1) END"
    };
}

/// Query text with the filter of usage rows. [`bind_filter`] binds the values in the order of the
/// parameters.
macro_rules! filtered {
    ($before:expr, $after:literal) => {
        concat!(
            $before,
            " WHERE account_id = $1
                AND ($2::bigint IS NULL OR created_at >= $2)
                AND ($3::bigint IS NULL OR created_at < $3)
                AND ($4::text IS NULL OR ",
            canonical_model!("usage_row"),
            " = $4)
                AND ($5::bytea IS NULL OR key_id = $5)
                AND ($6::text IS NULL OR endpoint = $6)
                AND ($7::bytea IS NULL OR request_id = $7)
                AND ($8::text IS NULL OR model = $8)
                AND ($9::text IS NULL OR ",
            upstream_model!(),
            " = $9) ",
            $after
        )
    };
}

/// Columns of [`UsageColumns`], selected from `usage_row`.
macro_rules! usage_columns {
    () => {
        concat!("usage_row.*, ", $crate::rows::canonical_model!("usage_row"), " AS canonical_model, (SELECT COALESCE(sum(credits + allowance), 0)::BIGINT FROM refund
            WHERE refund.account_id = usage_row.account_id AND refund.hold_id = usage_row.id) AS refunded")
    };
}
pub(super) use usage_columns;

// The id of a request's hold equals the request id, so a lookup per account needs no extra index.
const OF_REQUEST: &str = concat!(
    "SELECT ",
    usage_columns!(),
    " FROM account JOIN usage_row ON usage_row.account_id = account.id AND usage_row.id = $1"
);

const LIST: &str = filtered!(
    concat!("SELECT ", usage_columns!(), " FROM usage_row"),
    "AND ($10::bytea IS NULL OR id < $10) ORDER BY id DESC LIMIT $11"
);

/// Sums by group, ordered by the bytes of the group name. Key ids are hexadecimal. Sums saturate.
const TOTALS: &str = filtered!(
    concat!(
        "SELECT
        CASE $10
            WHEN 'day' THEN to_char(DATE '1970-01-01' + (created_at / 86400000000)::integer, 'YYYY-MM-DD')
            WHEN 'model' THEN ",
        canonical_model!("usage_row"),
        "
            WHEN 'requested_model' THEN model
            WHEN 'upstream_model' THEN ",
        upstream_model!(),
        "
            WHEN 'key' THEN COALESCE(encode(key_id, 'hex'), '')
            WHEN 'endpoint' THEN endpoint
            ELSE ''
        END COLLATE \"C\" AS group_name,
        count(*) AS requests,
        LEAST(sum(charge), 9223372036854775807)::bigint AS charge,
        LEAST(sum(input), 9223372036854775807)::bigint AS input,
        LEAST(sum(cache_read), 9223372036854775807)::bigint AS cache_read,
        LEAST(sum(cache_write), 9223372036854775807)::bigint AS cache_write,
        LEAST(sum(input_audio), 9223372036854775807)::bigint AS input_audio,
        LEAST(sum(output), 9223372036854775807)::bigint AS output,
        LEAST(sum(reasoning), 9223372036854775807)::bigint AS reasoning,
        LEAST(sum(output_audio), 9223372036854775807)::bigint AS output_audio,
        LEAST(sum(cache_write_1h), 9223372036854775807)::bigint AS cache_write_1h,
        LEAST(sum(image), 9223372036854775807)::bigint AS image,
        LEAST(sum(video), 9223372036854775807)::bigint AS video,
        LEAST(sum(audio), 9223372036854775807)::bigint AS audio,
        LEAST(sum(characters), 9223372036854775807)::bigint AS characters
    FROM usage_row"
    ),
    "GROUP BY group_name ORDER BY group_name"
);

#[async_trait]
impl UsageStore for UsageRows {
    async fn list(&self, account: AccountId, filter: UsageFilter, page: UsagePage) -> Result<Vec<UsageRow>> {
        let statement = bind_filter(sqlx::query(LIST), account, filter)
            .bind(page.after.map(|id| id.as_u128().to_be_bytes()))
            .bind(i64::from(page.limit));
        let found = self.0.settled(Some(account)).await.all(statement).await?;
        found.iter().map(rows::whole::<UsageColumns, _>).collect()
    }

    async fn of_request(&self, request: RequestId) -> Result<Option<UsageRow>> {
        let statement = sqlx::query(OF_REQUEST).bind(request.as_u128().to_be_bytes());
        let row = self.0.settled(None).await.optional(statement).await?;
        row.as_ref().map(rows::whole::<UsageColumns, _>).transpose()
    }

    async fn parts(&self, account: AccountId, row: HoldId) -> Result<Vec<UsagePart>> {
        let statement = sqlx::query(parts::LIST)
            .bind(account.as_u128().to_be_bytes())
            .bind(row.as_u128().to_be_bytes());
        let found = self.0.settled(Some(account)).await.all(statement).await?;
        found.iter().map(rows::whole::<PartColumns, _>).collect()
    }

    async fn totals(
        &self,
        account: AccountId,
        filter: UsageFilter,
        group: UsageGroup,
    ) -> Result<Vec<UsageTotal>> {
        let name = match group {
            UsageGroup::All => "all",
            UsageGroup::Day => "day",
            UsageGroup::Model => "model",
            UsageGroup::RequestedModel => "requested_model",
            UsageGroup::UpstreamModel => "upstream_model",
            UsageGroup::Key => "key",
            UsageGroup::Endpoint => "endpoint",
        };
        let statement = bind_filter(sqlx::query(TOTALS), account, filter).bind(name);
        let found = self.0.settled(Some(account)).await.all(statement).await?;
        found.iter().map(|row| total(row, group)).collect()
    }

    async fn last_used(&self, account: AccountId) -> Result<BTreeMap<KeyId, Timestamp>> {
        let statement = sqlx::query(KEYS_LAST_USED).bind(account.as_u128().to_be_bytes());
        let found = self.0.settled(Some(account)).await.all(statement).await?;
        let used = found.iter().map(|row| {
            let id: Vec<u8> = rows::get(row, "id")?;
            last_use_from(&id, rows::get(row, "last_used_at")?)
        });
        used.filter_map(Result::transpose).collect()
    }
}

fn bind_filter(statement: Statement, account: AccountId, filter: UsageFilter) -> Statement {
    statement
        .bind(account.as_u128().to_be_bytes())
        .bind(filter.from.map(Timestamp::as_micros))
        .bind(filter.to.map(Timestamp::as_micros))
        .bind(filter.model)
        .bind(filter.key.map(|key| key.as_u128().to_be_bytes()))
        .bind(filter.endpoint)
        .bind(filter.request.map(|request| request.as_u128().to_be_bytes()))
        .bind(filter.requested_model)
        .bind(filter.upstream_model)
}

fn total(row: &PgRow, group: UsageGroup) -> Result<UsageTotal> {
    let mut name: String = rows::get(row, "group_name")?;
    if group == UsageGroup::Key && !name.is_empty() {
        name.insert_str(0, KeyId::PREFIX);
    }
    let requests: i64 = rows::get(row, "requests")?;
    Ok(UsageTotal {
        group: name,
        requests: u64::try_from(requests).map_err(corrupt)?,
        charge: rows::credits(row, "charge")?,
        usage: rows::whole::<QuantityColumns, _>(row)?,
    })
}
