//! Implements [`NoticeStore`] on SQLite.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tollgate_storage::notice::latest_retry;
use tollgate_storage::{BalanceAlert, Notice, NoticeOutcome, NoticeStore, Result};
use tollgate_types::{AccountId, Timestamp};

use super::Sqlite;
use super::query::{Query, execute, rows};
use crate::notices::{
    ALERT, ALERTS, AlertColumns, LIST, NOTE_LOW, NoticeColumns, bind_notice, finish, set_alert,
};
use crate::rows::{id_bytes, page_edge, storage_error};

const CLAIM: &str = "UPDATE notice SET due_at = $2, attempts = attempts + 1 WHERE rowid IN \
    (SELECT rowid FROM notice WHERE state = 'pending' AND (due_at <= $1 OR due_at > $4) ORDER BY due_at LIMIT $3) RETURNING *";
const SWEEP: &str = "DELETE FROM notice WHERE rowid IN \
    (SELECT rowid FROM notice WHERE state <> 'pending' AND created_at < $1 ORDER BY created_at LIMIT $2)";

#[async_trait]
impl NoticeStore for Sqlite {
    async fn set_alert(&self, account: AccountId, alert: Option<BalanceAlert>) -> Result<()> {
        self.set_for(account, set_alert!(account, alert)).await
    }

    async fn alert(&self, account: AccountId) -> Result<Option<BalanceAlert>> {
        let statement = sqlx::query(ALERT).bind(id_bytes(account.as_u128()));
        Ok(self.alerts_of(statement).await?.into_iter().next())
    }

    async fn alerts(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<BalanceAlert>> {
        let statement = sqlx::query(ALERTS)
            .bind(page_edge(after.map(AccountId::as_u128), 0))
            .bind(i64::from(limit));
        self.alerts_of(statement).await
    }

    async fn note_low(&self, account: AccountId, is_low: bool, notices: Vec<Notice>) -> Result<bool> {
        self.write(
            move |connection| Box::pin(note_low(connection, account, is_low, notices)),
            |noted| noted,
        )
        .await
    }

    async fn claim(&self, now: Timestamp, until: Timestamp, limit: u32) -> Result<Vec<Notice>> {
        let statement = sqlx::query(CLAIM)
            .bind(now.as_micros())
            .bind(until.as_micros())
            .bind(i64::from(limit))
            .bind(latest_retry(now).as_micros());
        let claimed = self.write(
            move |connection| Box::pin(rows(connection, statement)),
            |claimed| claimed,
        );
        claimed.await?.iter().map(notice).collect()
    }

    async fn finish(&self, notice: &Notice, outcome: NoticeOutcome) -> Result<()> {
        let statement: Query = finish!(notice, outcome);
        self.write(move |connection| Box::pin(execute(connection, statement)), |_| ())
            .await
    }

    async fn list(&self, account: AccountId, limit: u32) -> Result<Vec<Notice>> {
        let statement = sqlx::query(LIST)
            .bind(id_bytes(account.as_u128()))
            .bind(i64::from(limit));
        self.all(statement).await?.iter().map(notice).collect()
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SWEEP).bind(before.as_micros()).bind(i64::from(limit));
        self.write(
            move |connection| Box::pin(execute(connection, statement)),
            |swept| swept,
        )
        .await
    }
}

impl Sqlite {
    async fn alerts_of(&self, statement: Query) -> Result<Vec<BalanceAlert>> {
        let alert = |row| AlertColumns::from_row(row).map_err(storage_error)?.try_into();
        self.all(statement).await?.iter().map(alert).collect()
    }
}

fn notice(row: &SqliteRow) -> Result<Notice> {
    NoticeColumns::from_row(row).map_err(storage_error)?.try_into()
}

async fn note_low(
    connection: &mut SqliteConnection,
    account: AccountId,
    is_low: bool,
    notices: Vec<Notice>,
) -> Result<bool> {
    let statement = sqlx::query(NOTE_LOW)
        .bind(id_bytes(account.as_u128()))
        .bind(i64::from(is_low));
    if execute(connection, statement).await? == 0 {
        return Ok(false);
    }
    for notice in &notices {
        execute(connection, bind_notice!(notice)).await?;
    }
    Ok(true)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    crate::notices::SET_ALERT,
    crate::notices::DELETE_ALERT,
    ALERT,
    ALERTS,
    NOTE_LOW,
    crate::notices::INSERT,
    crate::notices::FINISH,
    LIST,
    CLAIM,
    SWEEP,
];
