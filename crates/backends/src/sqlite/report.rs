//! Implements [`ReportStore`] on SQLite. Each query first waits until the database contains all
//! ended calls.

use async_trait::async_trait;
use sqlx::Row;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use tollgate_storage::audit::{Leg, TransferRow};
use tollgate_storage::report::{ChargeSum, LegSum, Span, Sums, TransferCursor};
use tollgate_storage::{ReportStore, Result};
use tollgate_types::{AccountId, Credits, Timestamp};

use super::Sqlite;
use super::audit::transfer_row;
use super::writer::execute;
use crate::rows::{canonical_model, corrupt, id_bytes, quantity_from, storage_error};

const SUMS: &str = "SELECT leg, count(*) AS count, sum(amount) AS amount FROM transfer \
    WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 GROUP BY leg";
const CHARGES: &str = concat!(
    "SELECT ",
    canonical_model!("usage_row"),
    " AS model, endpoint, count(DISTINCT entry_id) AS calls, \
    sum(CASE leg WHEN 2 THEN amount ELSE 0 END) AS paid, sum(CASE leg WHEN 6 THEN amount ELSE 0 END) AS included \
    FROM transfer JOIN usage_row ON usage_row.account_id = transfer.account_id AND usage_row.id = transfer.entry_id \
    WHERE transfer.account_id = $1 AND transfer.created_at >= $2 AND transfer.created_at < $3 \
    AND subject = 'hold' AND leg IN (2, 6) GROUP BY 1, 2 ORDER BY 1, 2"
);
const TRANSFERS: &str = "SELECT entry_id, leg, subject, debit, credit, amount, created_at, price_version, \
    sequence, prev_hash, hash FROM transfer \
    WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 AND (entry_id, leg) > ($4, $5) \
    ORDER BY entry_id, leg LIMIT $6";

#[async_trait]
impl ReportStore for Sqlite {
    async fn sums(&self, account: AccountId, span: Span) -> Result<Sums> {
        self.flush_resolved().await?;
        let read = self.read(move |connection| {
            Box::pin(async move {
                execute(connection, "BEGIN").await?;
                let sums = all_sums(connection, account, span).await;
                execute(connection, "COMMIT").await?;
                sums
            })
        });
        read.await
    }

    async fn transfers(
        &self,
        account: AccountId,
        span: Span,
        after: Option<TransferCursor>,
        limit: u32,
    ) -> Result<Vec<TransferRow>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(transfers(connection, account, span, after, limit)))
            .await
    }
}

type Statement = Query<'static, sqlx::Sqlite, SqliteArguments>;

fn bind(statement: &'static str, account: AccountId, span: Span) -> Statement {
    let micros = |instant: Option<Timestamp>| instant.map(Timestamp::as_micros);
    sqlx::query(statement)
        .bind(id_bytes(account.as_u128()))
        .bind(micros(span.from).unwrap_or(i64::MIN))
        .bind(micros(span.to).unwrap_or(i64::MAX))
}

async fn all_sums(connection: &mut SqliteConnection, account: AccountId, span: Span) -> Result<Sums> {
    Ok(Sums {
        before: match span.before() {
            Some(before) => sums(connection, account, before).await?,
            None => Vec::new(),
        },
        within: sums(connection, account, span).await?,
        until: sums(connection, account, span.until_end()).await?,
        charges: charges(connection, account, span).await?,
    })
}

async fn sums(connection: &mut SqliteConnection, account: AccountId, span: Span) -> Result<Vec<LegSum>> {
    let rows = bind(SUMS, account, span).fetch_all(connection).await;
    rows.map_err(storage_error)?.iter().map(sum).collect()
}

fn sum(row: &SqliteRow) -> Result<LegSum> {
    let number = |column| row.try_get::<i64, _>(column).map_err(storage_error);
    let leg = number("leg")?;
    let known = i16::try_from(leg).ok().and_then(Leg::from_i16);
    Ok(LegSum {
        leg: known.ok_or_else(|| corrupt(format!("unknown leg {leg}")))?,
        count: quantity_from(number("count")?)?,
        amount: Credits::from_nanos(number("amount")?),
    })
}

async fn charges(
    connection: &mut SqliteConnection,
    account: AccountId,
    span: Span,
) -> Result<Vec<ChargeSum>> {
    let rows = bind(CHARGES, account, span).fetch_all(connection).await;
    rows.map_err(storage_error)?.iter().map(charge).collect()
}

fn charge(row: &SqliteRow) -> Result<ChargeSum> {
    let text = |column| row.try_get::<String, _>(column).map_err(storage_error);
    let number = |column| row.try_get::<i64, _>(column).map_err(storage_error);
    Ok(ChargeSum {
        model: text("model")?.into(),
        endpoint: text("endpoint")?.into(),
        calls: quantity_from(number("calls")?)?,
        paid: Credits::from_nanos(number("paid")?),
        included: Credits::from_nanos(number("included")?),
    })
}

async fn transfers(
    connection: &mut SqliteConnection,
    account: AccountId,
    span: Span,
    after: Option<TransferCursor>,
    limit: u32,
) -> Result<Vec<TransferRow>> {
    // An empty entry sorts before every entry.
    let entry = after.map(|place| id_bytes(place.entry)).unwrap_or_default();
    let rows = bind(TRANSFERS, account, span)
        .bind(entry)
        .bind(after.map_or(0, |place| i64::from(place.leg.as_i16())))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.iter().map(transfer_row).collect()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SUMS, CHARGES, TRANSFERS];
