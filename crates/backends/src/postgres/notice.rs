//! Implements [`NoticeStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::notice::latest_retry;
use tollgate_storage::{BalanceAlert, Notice, NoticeOutcome, NoticeStore, Result};
use tollgate_types::{AccountId, Timestamp};

use super::pool::Pool;
use super::rows;
use super::top_up::check_account;
use crate::notices::{
    ALERT, ALERTS, AlertColumns, LIST, NOTE_LOW, NoticeColumns, bind_notice, finish, set_alert,
};
use crate::rows::{id_bytes, page_edge};

// Several nodes send concurrently; none waits for rows that another one has claimed.
const CLAIM: &str = "UPDATE notice SET due_at = $2, attempts = attempts + 1 WHERE (account_id, id) IN (
        SELECT account_id, id FROM notice WHERE state = 'pending' AND (due_at <= $1 OR due_at > $4) ORDER BY due_at LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) RETURNING *";
const SWEEP: &str = "DELETE FROM notice WHERE (account_id, id) IN (
        SELECT account_id, id FROM notice WHERE state <> 'pending' AND created_at < $1 ORDER BY created_at LIMIT $2
        FOR UPDATE SKIP LOCKED
    )";

pub(super) struct Notices(pub(super) Arc<Pool>);

#[async_trait]
impl NoticeStore for Notices {
    async fn set_alert(&self, account: AccountId, alert: Option<BalanceAlert>) -> Result<()> {
        self.0.execute(set_alert!(account, alert)).await?;
        check_account(&self.0, account).await
    }

    async fn alert(&self, account: AccountId) -> Result<Option<BalanceAlert>> {
        let statement = sqlx::query(ALERT).bind(id_bytes(account.as_u128()));
        self.0.optional(statement).await?.as_ref().map(alert).transpose()
    }

    async fn alerts(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<BalanceAlert>> {
        let statement = sqlx::query(ALERTS)
            .bind(page_edge(after.map(AccountId::as_u128), 0))
            .bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(alert).collect()
    }

    async fn note_low(&self, account: AccountId, is_low: bool, notices: Vec<Notice>) -> Result<bool> {
        self.0
            .call(move |connection| Box::pin(note_low(connection, account, is_low, notices)))
            .await
    }

    async fn claim(&self, now: Timestamp, until: Timestamp, limit: u32) -> Result<Vec<Notice>> {
        let statement = sqlx::query(CLAIM)
            .bind(now.as_micros())
            .bind(until.as_micros())
            .bind(i64::from(limit))
            .bind(latest_retry(now).as_micros());
        self.0.all(statement).await?.iter().map(notice).collect()
    }

    async fn finish(&self, notice: &Notice, outcome: NoticeOutcome) -> Result<()> {
        self.0.execute(finish!(notice, outcome)).await.map(drop)
    }

    async fn list(&self, account: AccountId, limit: u32) -> Result<Vec<Notice>> {
        let statement = sqlx::query(LIST)
            .bind(id_bytes(account.as_u128()))
            .bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(notice).collect()
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SWEEP).bind(before.as_micros()).bind(i64::from(limit));
        self.0.execute(statement).await
    }
}

fn alert(row: &PgRow) -> Result<BalanceAlert> {
    rows::whole::<AlertColumns, _>(row)
}

fn notice(row: &PgRow) -> Result<Notice> {
    rows::whole::<NoticeColumns, _>(row)
}

async fn note_low(
    connection: &mut PgConnection,
    account: AccountId,
    is_low: bool,
    notices: Vec<Notice>,
) -> sqlx::Result<bool> {
    let mut transaction = connection.begin().await?;
    let noted = sqlx::query(NOTE_LOW)
        .bind(id_bytes(account.as_u128()))
        .bind(i64::from(is_low))
        .execute(&mut *transaction)
        .await?;
    if noted.rows_affected() == 0 {
        return Ok(false);
    }
    for notice in &notices {
        bind_notice!(notice).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(true)
}
