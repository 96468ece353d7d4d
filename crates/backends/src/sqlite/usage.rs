//! Implements [`UsageStore`] on SQLite.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, QueryBuilder, Row, Sqlite as Db};
use tollgate_storage::{
    Result, UsageFilter, UsageGroup, UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal,
};
use tollgate_types::{AccountId, Credits, HoldId, KeyId, RequestId, Timestamp};

use super::Sqlite;
use crate::parts::{self, PartColumns};
use crate::rows::{
    KEYS_LAST_USED, QuantityColumns, UsageColumns, canonical_model, id_bytes, id_from, last_use_from,
    quantity_from, storage_error,
};

/// Expands to the columns of [`UsageColumns`], for a SELECT from `usage_row`.
macro_rules! usage_columns {
    () => {
        concat!("usage_row.account_id, usage_row.id, key_id, member_id, request_id, endpoint, model, ",
        $crate::rows::canonical_model!("usage_row"), " AS canonical_model, provider, price_version, held, \
        charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, \
        image, video, audio, characters, \
        outcome, estimated, usage_row.created_at, first_at, ended_at, included, plan_name, window_id, \
        (SELECT coalesce(sum(credits + allowance), 0) FROM refund \
        WHERE refund.account_id = usage_row.account_id AND refund.hold_id = usage_row.id) AS refunded")
    };
}
pub(super) use usage_columns;

const CANONICAL_MODEL: &str = canonical_model!("usage_row");
/// SQL expression of the upstream model: the part of `provider` after the first slash; empty for
/// rows that recorded only the provider.
const UPSTREAM_MODEL: &str =
    "CASE instr(provider, '/') WHEN 0 THEN '' ELSE substr(provider, instr(provider, '/') + 1) END";
const LIST: &str = concat!("SELECT ", usage_columns!());
// The first hold of a request has the request id, so a lookup per account uses the primary key and
// needs no other index.
const OF_REQUEST: &str = concat!(
    "SELECT ",
    usage_columns!(),
    " FROM account CROSS JOIN usage_row WHERE usage_row.account_id = account.id AND usage_row.id = $1"
);
const SUMS: &str = "COUNT(*) AS requests, SUM(charge) AS charge, SUM(input) AS input, SUM(cache_read) AS cache_read, \
    SUM(cache_write) AS cache_write, SUM(input_audio) AS input_audio, SUM(output) AS output, \
    SUM(reasoning) AS reasoning, SUM(output_audio) AS output_audio, SUM(cache_write_1h) AS cache_write_1h, \
    SUM(image) AS image, SUM(video) AS video, SUM(audio) AS audio, SUM(characters) AS characters";

#[async_trait]
impl UsageStore for Sqlite {
    async fn list(&self, account: AccountId, filter: UsageFilter, page: UsagePage) -> Result<Vec<UsageRow>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(list(connection, account, filter, page)))
            .await
    }

    async fn of_request(&self, request: RequestId) -> Result<Option<UsageRow>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(of_request(connection, request)))
            .await
    }

    async fn parts(&self, account: AccountId, row: HoldId) -> Result<Vec<UsagePart>> {
        self.read(move |connection| Box::pin(parts_of(connection, account, row)))
            .await
    }

    async fn totals(
        &self,
        account: AccountId,
        filter: UsageFilter,
        group: UsageGroup,
    ) -> Result<Vec<UsageTotal>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(totals(connection, account, filter, group)))
            .await
    }

    async fn last_used(&self, account: AccountId) -> Result<BTreeMap<KeyId, Timestamp>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(last_used(connection, account)))
            .await
    }
}

async fn list(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: UsageFilter,
    page: UsagePage,
) -> Result<Vec<UsageRow>> {
    let mut query = QueryBuilder::<Db>::new(LIST);
    push_filter(&mut query, account, filter);
    if let Some(after) = page.after {
        query.push(" AND id < ").push_bind(id_bytes(after.as_u128()));
    }
    query
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(page.limit));
    let rows: Vec<UsageColumns> = query
        .build_query_as()
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(UsageRow::try_from).collect()
}

async fn of_request(connection: &mut SqliteConnection, request: RequestId) -> Result<Option<UsageRow>> {
    let row: Option<UsageColumns> = sqlx::query_as(OF_REQUEST)
        .bind(id_bytes(request.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.map(UsageRow::try_from).transpose()
}

async fn parts_of(
    connection: &mut SqliteConnection,
    account: AccountId,
    row: HoldId,
) -> Result<Vec<UsagePart>> {
    let rows: Vec<PartColumns> = sqlx::query_as(parts::LIST)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(row.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(UsagePart::try_from).collect()
}

async fn totals(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: UsageFilter,
    group: UsageGroup,
) -> Result<Vec<UsageTotal>> {
    let by = match group {
        UsageGroup::All => "''",
        UsageGroup::Day => "strftime('%Y-%m-%d', created_at / 1000000, 'unixepoch')",
        UsageGroup::Model => CANONICAL_MODEL,
        UsageGroup::RequestedModel => "model",
        UsageGroup::UpstreamModel => UPSTREAM_MODEL,
        UsageGroup::Key => "key_id",
        UsageGroup::Endpoint => "endpoint",
    };
    let mut query = QueryBuilder::<Db>::new("SELECT ");
    query.push(by).push(" AS by_group, ").push(SUMS);
    push_filter(&mut query, account, filter);
    query.push(" GROUP BY by_group ORDER BY by_group");
    let rows = query.build().fetch_all(connection).await.map_err(storage_error)?;
    rows.iter().map(|row| total(row, group)).collect()
}

async fn last_used(
    connection: &mut SqliteConnection,
    account: AccountId,
) -> Result<BTreeMap<KeyId, Timestamp>> {
    let rows: Vec<(Vec<u8>, Option<i64>)> = sqlx::query_as(KEYS_LAST_USED)
        .bind(id_bytes(account.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let used = rows.iter().map(|(id, at)| last_use_from(id, *at));
    used.filter_map(Result::transpose).collect()
}

/// Appends the FROM clause and the filter on the account's rows.
fn push_filter(query: &mut QueryBuilder<Db>, account: AccountId, filter: UsageFilter) {
    query
        .push(" FROM usage_row WHERE account_id = ")
        .push_bind(id_bytes(account.as_u128()));
    if let Some(from) = filter.from {
        query.push(" AND created_at >= ").push_bind(from.as_micros());
    }
    if let Some(to) = filter.to {
        query.push(" AND created_at < ").push_bind(to.as_micros());
    }
    for (column, name) in [
        (CANONICAL_MODEL, filter.model),
        ("model", filter.requested_model),
        (UPSTREAM_MODEL, filter.upstream_model),
    ] {
        if let Some(name) = name {
            query.push(" AND ").push(column).push(" = ").push_bind(name);
        }
    }
    if let Some(key) = filter.key {
        query.push(" AND key_id = ").push_bind(id_bytes(key.as_u128()));
    }
    if let Some(endpoint) = filter.endpoint {
        query.push(" AND endpoint = ").push_bind(endpoint);
    }
    if let Some(request) = filter.request {
        query
            .push(" AND request_id = ")
            .push_bind(id_bytes(request.as_u128()));
    }
}

fn total(row: &SqliteRow, group: UsageGroup) -> Result<UsageTotal> {
    let name = match group {
        UsageGroup::Key => {
            let key: Option<Vec<u8>> = row.try_get("by_group").map_err(storage_error)?;
            let key = key.as_deref().map(id_from).transpose()?;
            key.map(|key| KeyId::from_u128(key).to_string())
                .unwrap_or_default()
        }
        _ => row.try_get("by_group").map_err(storage_error)?,
    };
    Ok(UsageTotal {
        group: name,
        requests: quantity_from(row.try_get("requests").map_err(storage_error)?)?,
        charge: Credits::from_nanos(row.try_get("charge").map_err(storage_error)?),
        usage: QuantityColumns::from_row(row)
            .map_err(storage_error)?
            .try_into()?,
    })
}

/// Statements of this module that are not built at run time.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OF_REQUEST, KEYS_LAST_USED];
