//! Implements [`UsageHourStore`] on PostgreSQL.
//!
//! The lock of an account's mark prevents concurrent steps. Calls of busy accounts have no hold in
//! the database, but a lease ([`super::lease`]): the mark stays behind the longest calls of leases.
//! A node that reports calls after its lease was closed moves the mark back ([`rewind`]).

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection, PgConnection, Row};
use tokio::sync::oneshot;
use tollgate_storage::usage::hold_ids;
use tollgate_storage::usage_hour::{STEP_ROWS, latest_mark, next_mark, start_of_hour};
use tollgate_storage::{HourDifference, HourSums, Result, StorageError, StorageErrorKind, UsageHourStore};
use tollgate_types::{AccountId, Timestamp};

use super::Node;
use super::error::{corrupt, while_running};
use super::lot::transact;
use super::pool::{Pool, Statement, join_error};
use super::rows;
use super::subscription::execute;
use crate::usage_hours::{BEHIND, HOUR_SUMS, ROW_AT, ROW_SUMS, SUM, SumColumns, differences};

pub(super) struct UsageHours(pub(super) Arc<Node>);

/// Creates the mark of an account without a test clock.
const CREATE_MARK: &str = "INSERT INTO usage_hour_mark (account_id, until)
    SELECT id, 0 FROM account WHERE id = $1 AND test_clock IS NULL ON CONFLICT DO NOTHING";
const LOCK_MARK: &str = "SELECT until FROM usage_hour_mark WHERE account_id = $1 FOR UPDATE";
const MOVE_MARK: &str = "UPDATE usage_hour_mark SET until = $2 WHERE account_id = $1";
/// Selects a lower bound of the creation times of all open and unreported calls. A call of a lease
/// is at most as old as the longest call at the last report: `expires_at` is a lifetime after the
/// report, and `reclaim_at` the duration of the longest call after `expires_at`. An hour covers
/// that lifetime.
const OLDEST_HOLD: &str = "SELECT LEAST(
        (SELECT min(created_at) FROM hold WHERE account_id = $1),
        (SELECT min(2 * expires_at - reclaim_at) - 3600000000 FROM lease WHERE account_id = $1)
    ) AS oldest";
const MOVE_MARK_BACK: &str = "INSERT INTO usage_hour_mark (account_id, until)
    SELECT id, 0 FROM account WHERE id = $1 AND test_clock IS NULL
    ON CONFLICT (account_id) DO UPDATE SET until = $2 WHERE usage_hour_mark.until > $2";
const REMOVE_FROM: &str = "DELETE FROM usage_hour WHERE account_id = $1 AND hour >= $2";

#[async_trait]
impl UsageHourStore for UsageHours {
    async fn accounts_behind(
        &self,
        now: Timestamp,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<AccountId>> {
        // An empty id sorts before every id.
        let after = after.map(|id| id.as_u128().to_be_bytes().to_vec());
        let statement = sqlx::query(BEHIND)
            .bind(after.unwrap_or_default())
            .bind(latest_mark(now, None).as_micros())
            .bind(i64::from(limit));
        let found = self.0.pool.all(statement).await?;
        let ids = found
            .iter()
            .map(|row| rows::id(row, "id").map(AccountId::from_u128));
        ids.collect()
    }

    async fn advance(&self, account: AccountId, now: Timestamp) -> Result<bool> {
        transact(self.0.settled(Some(account)).await, move |connection| {
            Box::pin(advance(connection, account, now))
        })
        .await
    }

    async fn differences(&self) -> Result<Vec<HourDifference>> {
        let (send, answer) = oneshot::channel();
        let reader = self.0.settled(None).await.start(move |connection| {
            Box::pin(async move {
                // The receiver exists until the task ends.
                let _ = send.send(compared(connection).await?);
                Ok(())
            })
        });
        reader.await.unwrap_or_else(|error| Err(join_error(&error)))?;
        answer
            .await
            .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error))
    }
}

async fn advance(connection: &mut PgConnection, account: AccountId, now: Timestamp) -> Result<bool> {
    let id = account.as_u128().to_be_bytes();
    execute(connection, sqlx::query(CREATE_MARK).bind(id)).await?;
    let Some(mark) = time(connection, sqlx::query(LOCK_MARK).bind(id)).await? else {
        return Ok(false);
    };
    // Calls that end after this statement have a row that is not before the oldest hold.
    let oldest = time(connection, sqlx::query(OLDEST_HOLD).bind(id)).await?;
    let latest = latest_mark(now, oldest);
    let start = hold_ids(Some(mark), None, None).start().as_u128().to_be_bytes();
    let row_at = |offset: u32| sqlx::query(ROW_AT).bind(id).bind(start).bind(i64::from(offset));
    let first = time(connection, row_at(0)).await?;
    let last = time(connection, row_at(STEP_ROWS)).await?;
    let Some(next) = next_mark(mark, latest, first, last) else {
        return Ok(false);
    };
    let ids = hold_ids(Some(mark), Some(next), None);
    let sum = sqlx::query(SUM)
        .bind(id)
        .bind(mark.as_micros())
        .bind(next.as_micros())
        .bind(ids.start().as_u128().to_be_bytes())
        .bind(ids.end().as_u128().to_be_bytes());
    execute(connection, sum).await?;
    execute(connection, sqlx::query(MOVE_MARK).bind(id).bind(next.as_micros())).await?;
    Ok(next < latest)
}

/// Reads the time in the first column of the first row; `None` without a row or value.
async fn time(connection: &mut PgConnection, statement: Statement) -> Result<Option<Timestamp>> {
    let row = statement
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    let micros = row.map(|row| row.try_get(0).map_err(corrupt)).transpose()?;
    Ok(micros.flatten().map(Timestamp::from_micros))
}

/// Removes the sums from the hour of `created_at` on, so that rows of that hour that were written
/// late are summed. The rows must be committed.
pub(super) async fn rewind(pool: &Pool, account: AccountId, created_at: Timestamp) -> Result<()> {
    let (id, hour) = (account.as_u128().to_be_bytes(), start_of_hour(created_at));
    transact(pool, move |connection| {
        Box::pin(async move {
            // Waits for a running step, whose sums the second statement removes.
            let back = sqlx::query(MOVE_MARK_BACK).bind(id).bind(hour.as_micros());
            execute(connection, back).await?;
            let remove = sqlx::query(REMOVE_FROM).bind(id).bind(hour.as_micros());
            execute(connection, remove).await
        })
    })
    .await
}

async fn compared(connection: &mut PgConnection) -> Result<Vec<HourDifference>> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await.map_err(while_running)?;
    // A long comparison holds no lock that blocks other transactions, so it needs no timeout.
    let timeout = sqlx::query("SET LOCAL statement_timeout = 0");
    execute(&mut transaction, timeout).await?;
    let rows = sums(&mut transaction, ROW_SUMS).await?;
    let hours = sums(&mut transaction, HOUR_SUMS).await?;
    transaction.rollback().await.map_err(while_running)?;
    Ok(differences(rows, hours))
}

async fn sums(connection: &mut PgConnection, statement: &'static str) -> Result<Vec<(AccountId, HourSums)>> {
    let found = sqlx::query(statement).fetch_all(connection).await;
    let found = found.map_err(while_running)?;
    found.iter().map(rows::whole::<SumColumns, _>).collect()
}
