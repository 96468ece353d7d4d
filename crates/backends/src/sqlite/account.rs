//! Tenants.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{
    Account, AccountChange, AccountChanged, AccountStore, LedgerAccount, Result, StorageError,
    StorageErrorKind,
};
use tollgate_types::AccountId;

use super::Sqlite;
use super::books::Sums;
use crate::rows::{AccountColumns, id_bytes, storage_error, test_clock_column, tpm_column};

const CREATE: &str = "INSERT INTO account (id, name, state, rpm, tpm, keys, gpus, agents, chats, created_at, \
    test_clock, files, files_gib, batch_tokens) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const OPEN_BOOK: &str = "INSERT INTO ledger_account (account_id, kind, balance) VALUES ($1, $2, 0)";
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
            move |()| engine.books.open(id, Sums::default()),
        )
        .await
    }

    async fn get(&self, id: AccountId) -> Result<Option<Account>> {
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>> {
        // No id is less than the empty one.
        let after = after.map(|id| id_bytes(id.as_u128())).unwrap_or_default();
        self.read(move |connection| Box::pin(list(connection, after, limit)))
            .await
    }

    async fn with_test_clocks(&self) -> Result<Vec<Account>> {
        self.read(|connection| Box::pin(with_test_clocks(connection)))
            .await
    }

    async fn change(&self, id: AccountId, wish: AccountChange) -> Result<AccountChanged> {
        self.write(
            move |connection| Box::pin(change(connection, id, wish)),
            |changed| changed,
        )
        .await
    }
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
        let book = sqlx::query(OPEN_BOOK).bind(id.clone()).bind(kind.as_str());
        book.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

/// The account, in the state that the connection sees.
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

/// A rule forbids it.
pub(super) fn conflict(why: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, why.into())
}

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CREATE, OPEN_BOOK, GET, LIST, WITH_TEST_CLOCKS, CHANGE];
