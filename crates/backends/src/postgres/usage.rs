//! Implements [`UsageStore`] on PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::usage::hold_ids;
use tollgate_storage::{
    CallPage, OutcomeFilter, Result, SeriesGroup, SeriesPoint, SeriesQuery, UsageFilter, UsageGroup,
    UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal,
};
use tollgate_types::{AccountId, HoldId, KeyId, MemberId, RequestId, Timestamp};

use super::Node;
use super::error::{corrupt, while_running};
use super::pool::Statement;
use super::rows;
use crate::parts::{self, PartColumns};
use crate::rows::{
    CallScan, KEYS_LAST_USED, QuantityColumns, SCAN_END, UsageColumns, canonical_model, last_use_from,
    test_clock_from,
};
use crate::usage_series::{MARK, SeriesColumns, TimeRange, points, split};

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
            " = $9)
                AND ($10::bytea IS NULL OR member_id = $10)
                AND ($11::text IS NULL OR outcome = $11)
                AND (NOT $12::boolean OR outcome <> 'ok') ",
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
    "AND ($13::bytea IS NULL OR id < $13) ORDER BY id DESC LIMIT $14"
);

const CALLS: &str = filtered!(
    concat!("SELECT ", usage_columns!(), " FROM usage_row"),
    "AND id >= $13 AND id <= $14 ORDER BY id DESC LIMIT $15"
);

/// Columns with sums of usage rows or hours. Sums saturate.
macro_rules! sums {
    () => {
        "LEAST(sum(charge), 9223372036854775807)::bigint AS charge,
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
        LEAST(sum(characters), 9223372036854775807)::bigint AS characters,
        LEAST(sum(searches), 9223372036854775807)::bigint AS searches,
        LEAST(sum(input_image), 9223372036854775807)::bigint AS input_image,
        LEAST(sum(cache_read_audio), 9223372036854775807)::bigint AS cache_read_audio"
    };
}

/// Sums by group, ordered by the bytes of the group name. Ids of keys and members are hexadecimal.
const TOTALS: &str = filtered!(
    concat!(
        "SELECT
        CASE $13
            WHEN 'day' THEN to_char(DATE '1970-01-01' + (created_at / 86400000000)::integer, 'YYYY-MM-DD')
            WHEN 'model' THEN ",
        canonical_model!("usage_row"),
        "
            WHEN 'requested_model' THEN model
            WHEN 'upstream_model' THEN ",
        upstream_model!(),
        "
            WHEN 'key' THEN COALESCE(encode(key_id, 'hex'), '')
            WHEN 'member' THEN COALESCE(encode(member_id, 'hex'), '')
            WHEN 'endpoint' THEN endpoint
            ELSE ''
        END COLLATE \"C\" AS group_name,
        count(*) AS requests,
        ",
        sums!(),
        "
    FROM usage_row"
    ),
    "GROUP BY group_name ORDER BY group_name"
);

/// Sums by span and group of a column of times. `$2` and `$3` are the range, `$4` is the length of
/// the spans, `$5` the grouping.
macro_rules! spans {
    ($time:literal, $model:expr, $requests:literal, $from:literal) => {
        concat!(
            "SELECT ",
            $time,
            " / $4 * $4 AS start,
                CASE $5
                    WHEN 'model' THEN ",
            $model,
            "
                    WHEN 'key' THEN COALESCE(encode(key_id, 'hex'), '')
                    WHEN 'member' THEN COALESCE(encode(member_id, 'hex'), '')
                    WHEN 'endpoint' THEN endpoint
                    ELSE ''
                END AS group_name,
                ",
            $requests,
            " AS requests,
                ",
            sums!(),
            " FROM ",
            $from,
            " WHERE account_id = $1 AND ",
            $time,
            " >= $2 AND ",
            $time,
            " < $3"
        )
    };
}

const SERIES_OF_ROWS: &str = concat!(
    spans!(
        "created_at",
        canonical_model!("usage_row"),
        "count(*)",
        "usage_row"
    ),
    " AND id >= $6 AND id <= $7 GROUP BY 1, 2"
);

const SERIES_OF_HOURS: &str = concat!(
    spans!("hour", "model", "sum(requests)::bigint", "usage_hour"),
    " GROUP BY 1, 2"
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

    async fn calls(
        &self,
        account: AccountId,
        filter: UsageFilter,
        page: UsagePage,
        scan_limit: u32,
    ) -> Result<CallPage> {
        let test_clock = self.test_clock(account).await?;
        let Some(mut scan) = CallScan::of(&filter, page, test_clock) else {
            return Ok(CallPage {
                rows: Vec::new(),
                next: None,
            });
        };
        let pool = self.0.settled(Some(account)).await;
        if filter != UsageFilter::default() {
            let statement = sqlx::query(SCAN_END)
                .bind(account.as_u128().to_be_bytes())
                .bind(scan.first.to_be_bytes())
                .bind(scan.last.to_be_bytes())
                .bind(i64::from(scan_limit) - 1);
            let end = pool.all(statement).await?;
            let end = end.iter().map(|row| rows::id(row, "id"));
            scan.end_at(&end.collect::<Result<Vec<u128>>>()?);
        }
        let statement = bind_filter(sqlx::query(CALLS), account, filter)
            .bind(scan.first.to_be_bytes())
            .bind(scan.last.to_be_bytes())
            .bind(i64::from(page.limit) + 1);
        let found = pool.all(statement).await?;
        let rows = found.iter().map(rows::whole::<UsageColumns, _>);
        Ok(scan.page(rows.collect::<Result<_>>()?, page.limit))
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
            UsageGroup::Member => "member",
            UsageGroup::Endpoint => "endpoint",
        };
        let statement = bind_filter(sqlx::query(TOTALS), account, filter).bind(name);
        let found = self.0.settled(Some(account)).await.all(statement).await?;
        found.iter().map(|row| total(row, group)).collect()
    }

    async fn series(&self, account: AccountId, query: SeriesQuery) -> Result<Vec<SeriesPoint>> {
        let test_clock = self.test_clock(account).await?;
        let pool = self.0.settled(Some(account)).await;
        pool.call(move |connection| Box::pin(in_snapshot(connection, account, query, test_clock)))
            .await?
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

impl UsageRows {
    async fn test_clock(&self, account: AccountId) -> Result<Option<Duration>> {
        let statement = sqlx::query("SELECT test_clock FROM account WHERE id = $1");
        let statement = statement.bind(account.as_u128().to_be_bytes());
        match self.0.pool.optional(statement).await? {
            Some(row) => test_clock_from(rows::get(&row, "test_clock")?),
            None => Ok(None),
        }
    }
}

async fn in_snapshot(
    connection: &mut PgConnection,
    account: AccountId,
    query: SeriesQuery,
    test_clock: Option<Duration>,
) -> sqlx::Result<Result<Vec<SeriesPoint>>> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await?;
    let points = series(&mut transaction, account, query, test_clock).await;
    transaction.rollback().await?;
    Ok(points)
}

async fn series(
    connection: &mut PgConnection,
    account: AccountId,
    query: SeriesQuery,
    test_clock: Option<Duration>,
) -> Result<Vec<SeriesPoint>> {
    let mark = sqlx::query_scalar(MARK).bind(account.as_u128().to_be_bytes());
    let mark = mark.fetch_optional(&mut *connection).await;
    let (summed, rest) = split(query, mark.map_err(while_running)?);
    let summed = summed.map(|range| spans(SERIES_OF_HOURS, account, query, range));
    let rest = rest.into_iter().map(|(from, to)| {
        let times = [from, to].map(Timestamp::from_micros);
        let ids = hold_ids(Some(times[0]), Some(times[1]), test_clock);
        spans(SERIES_OF_ROWS, account, query, (from, to))
            .bind(ids.start().as_u128().to_be_bytes())
            .bind(ids.end().as_u128().to_be_bytes())
    });
    let mut sums = Vec::new();
    for statement in rest.chain(summed) {
        let found = statement.fetch_all(&mut *connection).await;
        for row in &found.map_err(while_running)? {
            sums.push(rows::whole::<SeriesColumns, _>(row)?);
        }
    }
    Ok(points(sums, query.by))
}

/// Binds the first parameters of a statement that sums by span and group.
fn spans(
    statement: &'static str,
    account: AccountId,
    query: SeriesQuery,
    (from, to): TimeRange,
) -> Statement {
    sqlx::query(statement)
        .bind(account.as_u128().to_be_bytes())
        .bind(from)
        .bind(to)
        .bind(query.step.micros())
        .bind(series_group(query.by))
}

const fn series_group(by: Option<SeriesGroup>) -> &'static str {
    match by {
        Some(SeriesGroup::Model) => "model",
        Some(SeriesGroup::Key) => "key",
        Some(SeriesGroup::Member) => "member",
        Some(SeriesGroup::Endpoint) => "endpoint",
        None => "all",
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
        .bind(filter.member.map(|member| member.as_u128().to_be_bytes()))
        .bind(match filter.outcome {
            Some(OutcomeFilter::Only(outcome)) => Some(outcome.as_str()),
            Some(OutcomeFilter::ExceptOk) | None => None,
        })
        .bind(filter.outcome == Some(OutcomeFilter::ExceptOk))
}

fn total(row: &PgRow, group: UsageGroup) -> Result<UsageTotal> {
    let mut name: String = rows::get(row, "group_name")?;
    match group {
        UsageGroup::Key if !name.is_empty() => name.insert_str(0, KeyId::PREFIX),
        UsageGroup::Member if !name.is_empty() => name.insert_str(0, MemberId::PREFIX),
        _ => {}
    }
    let requests: i64 = rows::get(row, "requests")?;
    Ok(UsageTotal {
        group: name,
        requests: u64::try_from(requests).map_err(corrupt)?,
        charge: rows::credits(row, "charge")?,
        usage: rows::whole::<QuantityColumns, _>(row)?,
    })
}
