//! Implements [`UsageHourStore`] on SQLite.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::usage::hold_ids;
use tollgate_storage::usage_hour::{STEP_ROWS, latest_mark, next_mark};
use tollgate_storage::{HourDifference, HourSums, Result, UsageHourStore};
use tollgate_types::{AccountId, Timestamp};

use super::query::{execute, rows};
use super::{Sqlite, account, writer};
use crate::rows::{id_bytes, id_from, storage_error};
use crate::usage_hours::{BEHIND, HOUR_SUMS, ROW_AT, ROW_SUMS, SUM, SumColumns, differences};
use crate::usage_series::MARK;

const MOVE_MARK: &str = "INSERT INTO usage_hour_mark (account_id, until) VALUES ($1, $2) \
    ON CONFLICT (account_id) DO UPDATE SET until = excluded.until";

#[async_trait]
impl UsageHourStore for Sqlite {
    async fn accounts_behind(
        &self,
        now: Timestamp,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<AccountId>> {
        self.flush_resolved().await?;
        // An empty id sorts before every id.
        let after = after.map(|id| id_bytes(id.as_u128())).unwrap_or_default();
        let read = self.read(move |connection| Box::pin(behind(connection, now, after, limit)));
        read.await
    }

    async fn advance(&self, account: AccountId, now: Timestamp) -> Result<bool> {
        // Some open holds are only in memory. A hold that is resolved afterwards has a later row.
        let open = self.holds.of(account);
        let oldest = open.into_iter().map(|(created_at, _)| created_at).min();
        self.flush_resolved().await?;
        let latest = latest_mark(now, oldest);
        self.write(
            move |connection| Box::pin(advance(connection, account, latest)),
            |has_more| has_more,
        )
        .await
    }

    async fn differences(&self) -> Result<Vec<HourDifference>> {
        self.flush_resolved().await?;
        let read = self.read(|connection| {
            Box::pin(async move {
                writer::execute(connection, "BEGIN").await?;
                let found = compared(connection).await;
                writer::execute(connection, "COMMIT").await?;
                found
            })
        });
        read.await
    }
}

async fn behind(
    connection: &mut SqliteConnection,
    now: Timestamp,
    after: Vec<u8>,
    limit: u32,
) -> Result<Vec<AccountId>> {
    let found: Vec<(Vec<u8>,)> = sqlx::query_as(BEHIND)
        .bind(after)
        .bind(latest_mark(now, None).as_micros())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let ids = found.iter().map(|(id,)| id_from(id).map(AccountId::from_u128));
    ids.collect()
}

async fn advance(connection: &mut SqliteConnection, id: AccountId, latest: Timestamp) -> Result<bool> {
    let owner = account::get(connection, id).await?;
    if owner.is_none_or(|owner| owner.test_clock.is_some()) {
        return Ok(false);
    }
    let account = id_bytes(id.as_u128());
    let mark: Option<i64> = sqlx::query_scalar(MARK)
        .bind(account.clone())
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let mark = Timestamp::from_micros(mark.unwrap_or(0));
    let start = *hold_ids(Some(mark), None, None).start();
    let mut times = [None; 2];
    for (time, offset) in times.iter_mut().zip([0, STEP_ROWS]) {
        let created_at: Option<i64> = sqlx::query_scalar(ROW_AT)
            .bind(account.clone())
            .bind(id_bytes(start.as_u128()))
            .bind(i64::from(offset))
            .fetch_optional(&mut *connection)
            .await
            .map_err(storage_error)?;
        *time = created_at.map(Timestamp::from_micros);
    }
    let Some(next) = next_mark(mark, latest, times[0], times[1]) else {
        return Ok(false);
    };
    let ids = hold_ids(Some(mark), Some(next), None);
    let sum = sqlx::query(SUM)
        .bind(account.clone())
        .bind(mark.as_micros())
        .bind(next.as_micros())
        .bind(id_bytes(ids.start().as_u128()))
        .bind(id_bytes(ids.end().as_u128()));
    execute(connection, sum).await?;
    let moved = sqlx::query(MOVE_MARK).bind(account).bind(next.as_micros());
    execute(connection, moved).await?;
    Ok(next < latest)
}

async fn compared(connection: &mut SqliteConnection) -> Result<Vec<HourDifference>> {
    let rows = sums(connection, ROW_SUMS).await?;
    let hours = sums(connection, HOUR_SUMS).await?;
    Ok(differences(rows, hours))
}

async fn sums(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<Vec<(AccountId, HourSums)>> {
    let found = rows(connection, sqlx::query(statement)).await?;
    let sums = found
        .iter()
        .map(|row| SumColumns::from_row(row).map_err(storage_error)?.try_into());
    sums.collect()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[MARK, MOVE_MARK];
