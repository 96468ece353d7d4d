//! Tenants.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{
    Account, AccountState, AccountStore, LedgerAccount, Limits, Result, StorageError, StorageErrorKind,
};
use tollgate_types::AccountId;

use super::Sqlite;
use super::books::Sums;
use crate::rows::{AccountColumns, id_bytes, storage_error, tpm_column};

const CREATE: &str =
    "INSERT INTO account (id, name, state, rpm, tpm, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
const OPEN_BOOK: &str = "INSERT INTO ledger_account (account_id, kind, balance) VALUES ($1, $2, 0)";
const GET: &str = "SELECT id, name, state, rpm, tpm, created_at FROM account WHERE id = $1";
const LIST: &str =
    "SELECT id, name, state, rpm, tpm, created_at FROM account WHERE id > $1 ORDER BY id LIMIT $2";
const SET_LIMITS: &str = "UPDATE account SET rpm = $2, tpm = $3 WHERE id = $1";
const SET_STATE: &str = "UPDATE account SET state = $2 WHERE id = $1";

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

    async fn set_limits(&self, id: AccountId, limits: Limits) -> Result<()> {
        self.write(
            move |connection| Box::pin(set_limits(connection, id, limits)),
            |()| (),
        )
        .await
    }

    async fn set_state(&self, id: AccountId, state: AccountState) -> Result<()> {
        self.write(
            move |connection| Box::pin(set_state(connection, id, state)),
            |()| (),
        )
        .await
    }
}

async fn create(connection: &mut SqliteConnection, account: Account) -> Result<()> {
    let id = id_bytes(account.id.as_u128());
    sqlx::query(CREATE)
        .bind(id.clone())
        .bind(account.name)
        .bind(account.state.as_str())
        .bind(account.limits.rpm.map(i64::from))
        .bind(tpm_column(account.limits))
        .bind(account.created_at.as_micros())
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

async fn set_limits(connection: &mut SqliteConnection, id: AccountId, limits: Limits) -> Result<()> {
    let update = sqlx::query(SET_LIMITS)
        .bind(id_bytes(id.as_u128()))
        .bind(limits.rpm.map(i64::from))
        .bind(tpm_column(limits));
    let done = update.execute(connection).await.map_err(storage_error)?;
    found(done.rows_affected(), id)
}

async fn set_state(connection: &mut SqliteConnection, id: AccountId, state: AccountState) -> Result<()> {
    let update = sqlx::query(SET_STATE)
        .bind(id_bytes(id.as_u128()))
        .bind(state.as_str());
    let done = update.execute(connection).await.map_err(storage_error)?;
    found(done.rows_affected(), id)
}

fn found(rows: u64, id: AccountId) -> Result<()> {
    if rows == 0 {
        return Err(StorageError::not_found(id));
    }
    Ok(())
}

/// A rule forbids it.
pub(super) fn conflict(why: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, why.into())
}

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CREATE, OPEN_BOOK, GET, LIST, SET_LIMITS, SET_STATE];
