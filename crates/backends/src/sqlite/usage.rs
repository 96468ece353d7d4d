//! Implements [`UsageStore`] on SQLite.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, QueryBuilder, Row, Sqlite as Db};
use tollgate_storage::usage::hold_ids;
use tollgate_storage::{
    CallPage, OutcomeFilter, Result, SeriesGroup, SeriesPoint, SeriesQuery, UsageFilter, UsageGroup,
    UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, MemberId, RequestId, Timestamp};

use super::writer::execute;
use super::{Sqlite, account};
use crate::parts::{self, PartColumns};
use crate::rows::{
    CallScan, KEYS_LAST_USED, QuantityColumns, SCAN_END, UsageColumns, canonical_model, id_bytes, id_from,
    last_use_from, quantity_from, storage_error,
};
use crate::usage_series::{MARK, SeriesColumns, TimeRange, points, split};

/// Expands to the columns of [`UsageColumns`], for a SELECT from `usage_row`.
macro_rules! usage_columns {
    () => {
        concat!("usage_row.account_id, usage_row.id, key_id, member_id, request_id, endpoint, model, ",
        $crate::rows::canonical_model!("usage_row"), " AS canonical_model, provider, price_version, held, \
        charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, \
        image, video, audio, characters, searches, input_image, cache_read_audio, \
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
const SUMS: &str = "SUM(charge) AS charge, SUM(input) AS input, SUM(cache_read) AS cache_read, \
    SUM(cache_write) AS cache_write, SUM(input_audio) AS input_audio, SUM(output) AS output, \
    SUM(reasoning) AS reasoning, SUM(output_audio) AS output_audio, SUM(cache_write_1h) AS cache_write_1h, \
    SUM(image) AS image, SUM(video) AS video, SUM(audio) AS audio, SUM(characters) AS characters, \
    SUM(searches) AS searches, SUM(input_image) AS input_image, SUM(cache_read_audio) AS cache_read_audio";

#[async_trait]
impl UsageStore for Sqlite {
    async fn list(&self, account: AccountId, filter: UsageFilter, page: UsagePage) -> Result<Vec<UsageRow>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(list(connection, account, filter, page)))
            .await
    }

    async fn calls(
        &self,
        account: AccountId,
        filter: UsageFilter,
        page: UsagePage,
        scan_limit: u32,
    ) -> Result<CallPage> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(calls(connection, account, filter, page, scan_limit)))
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

    async fn series(&self, account: AccountId, query: SeriesQuery) -> Result<Vec<SeriesPoint>> {
        self.flush_resolved().await?;
        let read = self.read(move |connection| {
            Box::pin(async move {
                execute(connection, "BEGIN").await?;
                let points = series(connection, account, query).await;
                execute(connection, "COMMIT").await?;
                points
            })
        });
        read.await
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

async fn calls(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: UsageFilter,
    page: UsagePage,
    scan_limit: u32,
) -> Result<CallPage> {
    let nothing = CallPage {
        rows: Vec::new(),
        next: None,
    };
    let test_clock = test_clock(connection, account).await?;
    let Some(mut scan) = CallScan::of(&filter, page, test_clock) else {
        return Ok(nothing);
    };
    if filter != UsageFilter::default() {
        let end: Vec<(Vec<u8>,)> = sqlx::query_as(SCAN_END)
            .bind(id_bytes(account.as_u128()))
            .bind(id_bytes(scan.first))
            .bind(id_bytes(scan.last))
            .bind(i64::from(scan_limit) - 1)
            .fetch_all(&mut *connection)
            .await
            .map_err(storage_error)?;
        let end = end.iter().map(|(id,)| id_from(id));
        scan.end_at(&end.collect::<Result<Vec<u128>>>()?);
    }
    let mut query = calls_query(account, &scan, filter, page.limit);
    let rows: Vec<UsageColumns> = query
        .build_query_as()
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let rows = rows.into_iter().map(UsageRow::try_from);
    Ok(scan.page(rows.collect::<Result<_>>()?, page.limit))
}

/// Returns the query of the first `limit + 1` rows in a scan that match a filter. It reads a range
/// of the primary key: the sign prevents the use of the index by key.
fn calls_query(account: AccountId, scan: &CallScan, filter: UsageFilter, limit: u32) -> QueryBuilder<Db> {
    let mut query = QueryBuilder::new(LIST);
    let key = filter.key;
    push_filter(&mut query, account, UsageFilter { key: None, ..filter });
    query.push(" AND id >= ").push_bind(id_bytes(scan.first));
    query.push(" AND id <= ").push_bind(id_bytes(scan.last));
    if let Some(key) = key {
        query.push(" AND +key_id = ").push_bind(id_bytes(key.as_u128()));
    }
    query
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(limit) + 1);
    query
}

async fn test_clock(connection: &mut SqliteConnection, id: AccountId) -> Result<Option<Duration>> {
    Ok(account::get(connection, id)
        .await?
        .and_then(|account| account.test_clock))
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
        UsageGroup::Member => "member_id",
        UsageGroup::Endpoint => "endpoint",
    };
    let mut query = QueryBuilder::<Db>::new("SELECT ");
    query
        .push(by)
        .push(" AS by_group, COUNT(*) AS requests, ")
        .push(SUMS);
    push_filter(&mut query, account, filter);
    query.push(" GROUP BY by_group ORDER BY by_group");
    let rows = query.build().fetch_all(connection).await.map_err(storage_error)?;
    rows.iter().map(|row| total(row, group)).collect()
}

async fn series(
    connection: &mut SqliteConnection,
    account: AccountId,
    series: SeriesQuery,
) -> Result<Vec<SeriesPoint>> {
    let test_clock = test_clock(connection, account).await?;
    let mark: Option<i64> = sqlx::query_scalar(MARK)
        .bind(id_bytes(account.as_u128()))
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let (summed, rest) = split(series, mark);
    let rest = rest
        .into_iter()
        .map(|range| rows_query(account, series, range, test_clock));
    let summed = summed.map(|range| hours_query(account, series, range));
    let mut sums = Vec::new();
    for mut query in rest.chain(summed) {
        let rows: Vec<SeriesColumns> = query
            .build_query_as()
            .fetch_all(&mut *connection)
            .await
            .map_err(storage_error)?;
        for row in rows {
            sums.push(row.try_into()?);
        }
    }
    Ok(points(sums, series.by))
}

/// Returns the query of the usage rows in a range.
fn rows_query(
    account: AccountId,
    series: SeriesQuery,
    (from, to): TimeRange,
    test_clock: Option<Duration>,
) -> QueryBuilder<Db> {
    let mut query = spans_query("created_at", "COUNT(*)", series);
    let filter = UsageFilter {
        from: Some(Timestamp::from_micros(from)),
        to: Some(Timestamp::from_micros(to)),
        ..UsageFilter::default()
    };
    let ids = hold_ids(filter.from, filter.to, test_clock);
    push_filter(&mut query, account, filter);
    query
        .push(" AND id >= ")
        .push_bind(id_bytes(ids.start().as_u128()));
    query.push(" AND id <= ").push_bind(id_bytes(ids.end().as_u128()));
    query.push(" GROUP BY 1, 2");
    query
}

/// Returns the query of the usage hours in a range.
fn hours_query(account: AccountId, series: SeriesQuery, (from, to): TimeRange) -> QueryBuilder<Db> {
    let mut query = spans_query("hour", "SUM(requests)", series);
    query
        .push(" FROM usage_hour WHERE account_id = ")
        .push_bind(id_bytes(account.as_u128()));
    query.push(" AND hour >= ").push_bind(from);
    query.push(" AND hour < ").push_bind(to);
    query.push(" GROUP BY 1, 2");
    query
}

/// Starts a query of sums by span and group. `time` is the column of the span, `requests` the
/// number of rows.
fn spans_query(time: &'static str, requests: &'static str, series: SeriesQuery) -> QueryBuilder<Db> {
    let by = match (series.by, time) {
        (Some(SeriesGroup::Model), "hour") => "model",
        (Some(SeriesGroup::Model), _) => CANONICAL_MODEL,
        (Some(SeriesGroup::Key), _) => "lower(hex(key_id))",
        (Some(SeriesGroup::Member), _) => "lower(hex(member_id))",
        (Some(SeriesGroup::Endpoint), _) => "endpoint",
        (None, _) => "''",
    };
    let step = series.step.micros();
    let mut query = QueryBuilder::new("SELECT ");
    query.push(time).push(" / ").push_bind(step);
    query.push(" * ").push_bind(step);
    query.push(" AS start, ").push(by).push(" AS group_name, ");
    query.push(requests).push(" AS requests, ").push(SUMS);
    query
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
    if let Some(member) = filter.member {
        query
            .push(" AND member_id = ")
            .push_bind(id_bytes(member.as_u128()));
    }
    if let Some(outcome) = filter.outcome {
        let (operator, outcome) = match outcome {
            OutcomeFilter::Only(outcome) => (" = ", outcome),
            OutcomeFilter::ExceptOk => (" <> ", Outcome::Ok),
        };
        query
            .push(" AND outcome")
            .push(operator)
            .push_bind(outcome.as_str());
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
        UsageGroup::Key | UsageGroup::Member => {
            let id: Option<Vec<u8>> = row.try_get("by_group").map_err(storage_error)?;
            let id = id.as_deref().map(id_from).transpose()?;
            let text = |id| match group {
                UsageGroup::Key => KeyId::from_u128(id).to_string(),
                _ => MemberId::from_u128(id).to_string(),
            };
            id.map(text).unwrap_or_default()
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

/// Returns the text of the statement that reads a page of calls.
#[cfg(test)]
pub(super) fn calls_statement(filter: UsageFilter) -> String {
    let scan = CallScan {
        first: 0,
        last: u128::MAX,
        has_more: false,
    };
    let query = calls_query(AccountId::from_u128(1), &scan, filter, 10);
    query.sql().as_str().to_owned()
}

/// Returns the texts of the statements that sum rows and hours by span and group.
#[cfg(test)]
pub(super) fn series_statements(by: Option<SeriesGroup>) -> [String; 2] {
    let series = SeriesQuery {
        from: Timestamp::from_micros(0),
        to: Timestamp::from_micros(1),
        step: tollgate_storage::SeriesStep::Hour,
        by,
    };
    let account = AccountId::from_u128(1);
    let queries = [
        rows_query(account, series, (0, 1), None),
        hours_query(account, series, (0, 1)),
    ];
    queries.map(|query| query.sql().as_str().to_owned())
}

/// Statements of this module that are not built at run time.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OF_REQUEST, KEYS_LAST_USED, SCAN_END];
