//! Implements [`ReportStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::audit::{Leg, TransferRow};
use tollgate_storage::report::{ChargeSum, LegSum, Span, Sums, TransferCursor};
use tollgate_storage::{ReportStore, Result};
use tollgate_types::{AccountId, Timestamp};

use super::Node;
use super::audit::transfer;
use super::error::{corrupt, while_running};
use super::pool::Statement;
use super::rows;
use crate::rows::canonical_model;

pub(super) struct Reports(pub(super) Arc<Node>);

/// Query text with the filter of transfers. [`bind`] binds the values in the order of the
/// parameters.
macro_rules! within {
    ($before:expr, $after:literal) => {
        concat!(
            $before,
            " WHERE transfer.account_id = $1
                AND ($2::bigint IS NULL OR transfer.created_at >= $2)
                AND ($3::bigint IS NULL OR transfer.created_at < $3) ",
            $after
        )
    };
}

const SUMS: &str = within!(
    "SELECT leg, count(*) AS count, sum(amount)::bigint AS amount FROM transfer",
    "GROUP BY leg"
);
const CHARGES: &str = within!(
    concat!(
        "SELECT (",
        canonical_model!("usage_row"),
        ") COLLATE \"C\" AS model, endpoint COLLATE \"C\" AS endpoint, count(DISTINCT entry_id) AS calls,
        COALESCE(sum(amount) FILTER (WHERE leg = 2), 0)::bigint AS paid,
        COALESCE(sum(amount) FILTER (WHERE leg = 6), 0)::bigint AS included
    FROM transfer JOIN usage_row ON usage_row.account_id = transfer.account_id AND usage_row.id = entry_id"
    ),
    "AND subject = 'hold' AND leg IN (2, 6) GROUP BY 1, 2 ORDER BY 1, 2"
);
const TRANSFERS: &str = within!(
    "SELECT * FROM transfer",
    "AND ($4::bytea IS NULL OR (entry_id, leg) > ($4, $5)) ORDER BY entry_id, leg LIMIT $6"
);

#[async_trait]
impl ReportStore for Reports {
    async fn sums(&self, account: AccountId, span: Span) -> Result<Sums> {
        self.0
            .settled(Some(account))
            .await
            .call(move |connection| Box::pin(in_snapshot(connection, account, span)))
            .await?
    }

    async fn transfers(
        &self,
        account: AccountId,
        span: Span,
        after: Option<TransferCursor>,
        limit: u32,
    ) -> Result<Vec<TransferRow>> {
        let statement = bind(TRANSFERS, account, span)
            .bind(after.map(|place| place.entry.to_be_bytes()))
            .bind(after.map(|place| place.leg.as_i16()))
            .bind(i64::from(limit));
        self.0
            .settled(Some(account))
            .await
            .all(statement)
            .await?
            .iter()
            .map(transfer)
            .collect()
    }
}

async fn in_snapshot(
    connection: &mut PgConnection,
    account: AccountId,
    span: Span,
) -> sqlx::Result<Result<Sums>> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await?;
    let sums = all_sums(&mut transaction, account, span).await;
    transaction.rollback().await?;
    Ok(sums)
}

async fn all_sums(connection: &mut PgConnection, account: AccountId, span: Span) -> Result<Sums> {
    let found = bind(CHARGES, account, span).fetch_all(&mut *connection).await;
    let charges = found
        .map_err(while_running)?
        .iter()
        .map(charge)
        .collect::<Result<_>>()?;
    Ok(Sums {
        before: match span.before() {
            Some(before) => sums(connection, account, before).await?,
            None => Vec::new(),
        },
        within: sums(connection, account, span).await?,
        until: sums(connection, account, span.until_end()).await?,
        charges,
    })
}

async fn sums(connection: &mut PgConnection, account: AccountId, span: Span) -> Result<Vec<LegSum>> {
    let found = bind(SUMS, account, span).fetch_all(connection).await;
    let sum = |row: &PgRow| {
        let (number, count): (i16, i64) = (rows::get(row, "leg")?, rows::get(row, "count")?);
        Ok(LegSum {
            leg: Leg::from_i16(number).ok_or_else(|| corrupt(format!("unknown leg {number}")))?,
            count: u64::try_from(count).map_err(corrupt)?,
            amount: rows::credits(row, "amount")?,
        })
    };
    found.map_err(while_running)?.iter().map(sum).collect()
}

fn charge(row: &PgRow) -> Result<ChargeSum> {
    let calls: i64 = rows::get(row, "calls")?;
    Ok(ChargeSum {
        model: rows::get::<&str>(row, "model")?.into(),
        endpoint: rows::get::<&str>(row, "endpoint")?.into(),
        calls: u64::try_from(calls).map_err(corrupt)?,
        paid: rows::credits(row, "paid")?,
        included: rows::credits(row, "included")?,
    })
}

fn bind(statement: &'static str, account: AccountId, span: Span) -> Statement {
    sqlx::query(statement)
        .bind(account.as_u128().to_be_bytes())
        .bind(span.from.map(Timestamp::as_micros))
        .bind(span.to.map(Timestamp::as_micros))
}
