//! Implements [`AccountStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tollgate_storage::{
    Account, AccountChange, AccountChanged, AccountState, AccountStore, CloseBlockers, CloseOutcome,
    LedgerAccount, Result, StorageError,
};
use tollgate_types::{AccountId, Timestamp};

use super::error::while_running;
use super::lot::transact;
use super::pool::Pool;
use super::rows;
use super::subscription::{execute, lock};
use crate::closing;
use crate::rows::{quantity_from, test_clock_column, tpm_column};

pub(super) struct Accounts(pub(super) Arc<Pool>);

const COLUMNS: [&str; 14] = [
    "id",
    "name",
    "state",
    "rpm",
    "tpm",
    "keys",
    "gpus",
    "agents",
    "chats",
    "files",
    "files_gib",
    "batch_tokens",
    "test_clock",
    "created_at",
];

#[async_trait]
impl AccountStore for Accounts {
    async fn create(&self, account: Account) -> Result<()> {
        let kinds: Vec<&'static str> = LedgerAccount::ALL.map(LedgerAccount::as_str).into();
        let statement = sqlx::query(
            "WITH created AS (
                INSERT INTO account (id, name, state, rpm, tpm, created_at, keys, gpus, agents, chats,
                    test_clock, files, files_gib, batch_tokens)
                VALUES ($1, $2, $3, $4, $5, $6, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING id
            )
            INSERT INTO ledger_account (account_id, kind, balance)
            SELECT created.id, kinds.kind, 0 FROM created, unnest($7::text[]) AS kinds (kind)",
        );
        let test_clock = test_clock_column(&account)?;
        let statement = statement
            .bind(account.id.as_u128().to_be_bytes())
            .bind(account.name)
            .bind(account.state.as_str())
            .bind(account.limits.rpm.map(i64::from))
            .bind(tpm_column(account.limits))
            .bind(account.created_at.as_micros())
            .bind(kinds)
            .bind(account.limits.keys.map(i64::from))
            .bind(account.limits.gpus.map(i64::from))
            .bind(account.limits.agents.map(i64::from))
            .bind(account.limits.chats.map(i64::from))
            .bind(test_clock)
            .bind(account.limits.files.map(i64::from))
            .bind(account.limits.files_gib.map(i64::from))
            .bind(account.limits.batch_tokens.map(u64::cast_signed));
        self.0.execute(statement).await.map(drop)
    }

    async fn get(&self, id: AccountId) -> Result<Option<Account>> {
        let statement = sqlx::query("SELECT * FROM account WHERE id = $1").bind(id.as_u128().to_be_bytes());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::account(&row, COLUMNS)).transpose()
    }

    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>> {
        let statement =
            sqlx::query("SELECT * FROM account WHERE $1::bytea IS NULL OR id > $1 ORDER BY id LIMIT $2")
                .bind(after.map(|id| id.as_u128().to_be_bytes()))
                .bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(|row| rows::account(row, COLUMNS)).collect()
    }

    async fn with_test_clocks(&self) -> Result<Vec<Account>> {
        let statement = sqlx::query("SELECT * FROM account WHERE test_clock IS NOT NULL ORDER BY id");
        let found = self.0.all(statement).await?;
        found.iter().map(|row| rows::account(row, COLUMNS)).collect()
    }

    async fn change(&self, id: AccountId, change: AccountChange) -> Result<AccountChanged> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                let before = locked(connection, id).await?;
                before.refuse_closed()?;
                let after = change.apply(&before);
                update(connection, &after).await?;
                Ok(AccountChanged { before, after })
            })
        })
        .await
    }

    async fn close_account(&self, id: AccountId, at: Timestamp) -> Result<CloseOutcome> {
        transact(&self.0, move |connection| Box::pin(close(connection, id, at))).await
    }
}

/// Counts the account's holds and its leases with running calls.
const OPEN_CALLS: &str = "SELECT (SELECT count(*) FROM hold WHERE account_id = $1)
    + (SELECT count(*) FROM lease WHERE account_id = $1 AND in_flight > 0) AS open";

async fn close(connection: &mut PgConnection, id: AccountId, at: Timestamp) -> Result<CloseOutcome> {
    let account = locked(connection, id).await?;
    // Blocks concurrent holds.
    lock(connection, id).await?;
    let blockers = CloseBlockers {
        is_active: account.state == AccountState::Active,
        calls: open(connection, OPEN_CALLS, id).await?,
        jobs: open(connection, closing::OPEN_JOBS, id).await?,
        subscriptions: open(connection, closing::OPEN_SUBSCRIPTIONS, id).await?,
    };
    if !blockers.is_empty() {
        return Ok(CloseOutcome::Refused(blockers));
    }
    let key = id.as_u128().to_be_bytes();
    for statement in closing::REMOVE {
        execute(connection, sqlx::query(statement).bind(key)).await?;
    }
    for statement in closing::END {
        let end = sqlx::query(statement).bind(key).bind(at.as_micros());
        execute(connection, end).await?;
    }
    locked(connection, id).await.map(CloseOutcome::Closed)
}

/// Reads the account and locks its row until the transaction ends.
pub(super) async fn locked(connection: &mut PgConnection, id: AccountId) -> Result<Account> {
    let lock =
        sqlx::query("SELECT * FROM account WHERE id = $1 FOR NO KEY UPDATE").bind(id.as_u128().to_be_bytes());
    let row = lock
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    rows::account(&row.ok_or_else(|| StorageError::not_found(id))?, COLUMNS)
}

async fn open(connection: &mut PgConnection, statement: &'static str, id: AccountId) -> Result<u64> {
    let count = sqlx::query(statement).bind(id.as_u128().to_be_bytes());
    let row = count.fetch_one(connection).await.map_err(while_running)?;
    quantity_from(rows::get(&row, "open")?)
}

async fn update(connection: &mut PgConnection, account: &Account) -> Result<()> {
    let statement = sqlx::query(
        "UPDATE account SET name = $2, state = $3, rpm = $4, tpm = $5, keys = $6, gpus = $7, agents = $8, chats = $9,
            test_clock = $10, files = $11, files_gib = $12, batch_tokens = $13
        WHERE id = $1",
    );
    let statement = statement
        .bind(account.id.as_u128().to_be_bytes())
        .bind(account.name.clone())
        .bind(account.state.as_str())
        .bind(account.limits.rpm.map(i64::from))
        .bind(tpm_column(account.limits))
        .bind(account.limits.keys.map(i64::from))
        .bind(account.limits.gpus.map(i64::from))
        .bind(account.limits.agents.map(i64::from))
        .bind(account.limits.chats.map(i64::from))
        .bind(test_clock_column(account)?)
        .bind(account.limits.files.map(i64::from))
        .bind(account.limits.files_gib.map(i64::from))
        .bind(account.limits.batch_tokens.map(u64::cast_signed));
    execute(connection, statement).await
}
