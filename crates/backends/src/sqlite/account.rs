//! Implements [`AccountStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{
    Account, AccountChange, AccountChanged, AccountState, AccountStore, CloseBlockers, CloseOutcome,
    LedgerAccount, Result, StorageError, StorageErrorKind,
};
use tollgate_types::{AccountId, Timestamp};

use super::Sqlite;
use super::balances::Sums;
use crate::closing;
use crate::rows::{AccountColumns, id_bytes, quantity_from, storage_error, test_clock_column, tpm_column};

const CREATE: &str = "INSERT INTO account (id, name, state, rpm, tpm, keys, gpus, agents, chats, created_at, \
    test_clock, files, files_gib, batch_tokens) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const OPEN_LEDGER_ACCOUNTS: &str =
    "INSERT INTO ledger_account (account_id, kind, balance) VALUES ($1, $2, 0)";
const GET: &str = "SELECT * FROM account WHERE id = $1";
const LIST: &str = "SELECT * FROM account WHERE id > $1 ORDER BY id LIMIT $2";
const WITH_TEST_CLOCKS: &str = "SELECT * FROM account WHERE test_clock IS NOT NULL ORDER BY id";
const CHANGE: &str = "UPDATE account SET name = $2, state = $3, rpm = $4, tpm = $5, keys = $6, gpus = $7, agents = $8, \
    chats = $9, test_clock = $10, files = $11, files_gib = $12, batch_tokens = $13 WHERE id = $1";

#[async_trait]
impl AccountStore for Sqlite {
    async fn create(&self, account: Account) -> Result<()> {
        let (id, engine) = (account.id, self.0.core.clone());
        self.write(
            move |connection| Box::pin(create(connection, account)),
            move |()| engine.balances.open(id, Sums::default()),
        )
        .await
    }

    async fn get(&self, id: AccountId) -> Result<Option<Account>> {
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>> {
        // An empty id sorts before every id.
        let after = after.map(|id| id_bytes(id.as_u128())).unwrap_or_default();
        self.read(move |connection| Box::pin(list(connection, after, limit)))
            .await
    }

    async fn with_test_clocks(&self) -> Result<Vec<Account>> {
        self.read(|connection| Box::pin(with_test_clocks(connection)))
            .await
    }

    async fn change(&self, id: AccountId, account_change: AccountChange) -> Result<AccountChanged> {
        self.write(
            move |connection| Box::pin(change(connection, id, account_change)),
            |changed| changed,
        )
        .await
    }

    async fn close_account(&self, id: AccountId, at: Timestamp) -> Result<CloseOutcome> {
        // Counts the open holds in memory, because the settlement of a call may be only in the
        // journal.
        let calls = self.0.core.holds.of(id).len() as u64;
        self.write(
            move |connection| Box::pin(close(connection, id, at, calls)),
            |closing| closing,
        )
        .await
    }
}

async fn close(
    connection: &mut SqliteConnection,
    id: AccountId,
    at: Timestamp,
    calls: u64,
) -> Result<CloseOutcome> {
    let account = get(connection, id).await?;
    let account = account.ok_or_else(|| StorageError::not_found(id))?;
    let key = id_bytes(id.as_u128());
    let mut open = [0_u64; 2];
    for (open, statement) in open
        .iter_mut()
        .zip([closing::OPEN_JOBS, closing::OPEN_SUBSCRIPTIONS])
    {
        let count: (i64,) = sqlx::query_as(statement)
            .bind(key.clone())
            .fetch_one(&mut *connection)
            .await
            .map_err(storage_error)?;
        *open = quantity_from(count.0)?;
    }
    let [jobs, subscriptions] = open;
    let blockers = CloseBlockers {
        is_active: account.state == AccountState::Active,
        calls,
        jobs,
        subscriptions,
    };
    if !blockers.is_empty() {
        return Ok(CloseOutcome::Refused(blockers));
    }
    for statement in closing::REMOVE {
        let removal = sqlx::query(statement).bind(key.clone());
        removal.execute(&mut *connection).await.map_err(storage_error)?;
    }
    for statement in closing::END {
        let end = sqlx::query(statement).bind(key.clone()).bind(at.as_micros());
        end.execute(&mut *connection).await.map_err(storage_error)?;
    }
    let closed = get(connection, id).await?;
    Ok(CloseOutcome::Closed(
        closed.ok_or_else(|| StorageError::not_found(id))?,
    ))
}

async fn create(connection: &mut SqliteConnection, account: Account) -> Result<()> {
    let id = id_bytes(account.id.as_u128());
    let test_clock = test_clock_column(&account)?;
    sqlx::query(CREATE)
        .bind(id.clone())
        .bind(account.name)
        .bind(account.state.as_str())
        .bind(account.limits.rpm.map(i64::from))
        .bind(tpm_column(account.limits))
        .bind(account.limits.keys.map(i64::from))
        .bind(account.limits.gpus.map(i64::from))
        .bind(account.limits.agents.map(i64::from))
        .bind(account.limits.chats.map(i64::from))
        .bind(account.created_at.as_micros())
        .bind(test_clock)
        .bind(account.limits.files.map(i64::from))
        .bind(account.limits.files_gib.map(i64::from))
        .bind(account.limits.batch_tokens.map(u64::cast_signed))
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    for kind in LedgerAccount::ALL {
        let account_balances = sqlx::query(OPEN_LEDGER_ACCOUNTS)
            .bind(id.clone())
            .bind(kind.as_str());
        account_balances
            .execute(&mut *connection)
            .await
            .map_err(storage_error)?;
    }
    Ok(())
}

/// Returns an account, including uncommitted changes of this connection.
pub(super) async fn get(connection: &mut SqliteConnection, id: AccountId) -> Result<Option<Account>> {
    let columns: Option<AccountColumns> = sqlx::query_as(GET)
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Account::try_from).transpose()
}

async fn list(connection: &mut SqliteConnection, after: Vec<u8>, limit: u32) -> Result<Vec<Account>> {
    let rows: Vec<AccountColumns> = sqlx::query_as(LIST)
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Account::try_from).collect()
}

async fn with_test_clocks(connection: &mut SqliteConnection) -> Result<Vec<Account>> {
    let rows: Vec<AccountColumns> = sqlx::query_as(WITH_TEST_CLOCKS)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Account::try_from).collect()
}

async fn change(
    connection: &mut SqliteConnection,
    id: AccountId,
    change: AccountChange,
) -> Result<AccountChanged> {
    let before = get(connection, id).await?;
    let before = before.ok_or_else(|| StorageError::not_found(id))?;
    before.refuse_closed()?;
    let after = change.apply(&before);
    let update = sqlx::query(CHANGE)
        .bind(id_bytes(id.as_u128()))
        .bind(after.name.clone())
        .bind(after.state.as_str())
        .bind(after.limits.rpm.map(i64::from))
        .bind(tpm_column(after.limits))
        .bind(after.limits.keys.map(i64::from))
        .bind(after.limits.gpus.map(i64::from))
        .bind(after.limits.agents.map(i64::from))
        .bind(after.limits.chats.map(i64::from))
        .bind(test_clock_column(&after)?)
        .bind(after.limits.files.map(i64::from))
        .bind(after.limits.files_gib.map(i64::from))
        .bind(after.limits.batch_tokens.map(u64::cast_signed));
    update.execute(connection).await.map_err(storage_error)?;
    Ok(AccountChanged { before, after })
}

/// Creates a `Conflict` error with this message.
pub(super) fn conflict(why: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, why.into())
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CREATE, OPEN_LEDGER_ACCOUNTS, GET, LIST, WITH_TEST_CLOCKS, CHANGE];
