//! Statements with their values, as the plainer stores of this engine use them.

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use tollgate_storage::{Result, StorageError};
use tollgate_types::AccountId;

use super::Sqlite;
use crate::rows::{id_bytes, storage_error};
use crate::top_ups::ACCOUNT;

/// A statement with its values.
pub(super) type Query = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

impl Sqlite {
    /// All rows.
    pub(super) async fn all(&self, statement: Query) -> Result<Vec<SqliteRow>> {
        self.read(move |connection| Box::pin(rows(connection, statement)))
            .await
    }

    /// Executes what sets something for an account. `NotFound` when there is no such account.
    pub(super) async fn set_for(&self, account: AccountId, statement: Query) -> Result<()> {
        let set = self.write(
            move |connection| {
                Box::pin(async move {
                    execute(connection, statement).await?;
                    exists(connection, account).await
                })
            },
            |exists| exists,
        );
        set.await?
            .then_some(())
            .ok_or_else(|| StorageError::not_found(account))
    }
}

/// Executes; answers how many rows were changed.
pub(super) async fn execute(connection: &mut SqliteConnection, statement: Query) -> Result<u64> {
    let done = statement.execute(connection).await.map_err(storage_error)?;
    Ok(done.rows_affected())
}

/// All rows, on this connection.
pub(super) async fn rows(connection: &mut SqliteConnection, statement: Query) -> Result<Vec<SqliteRow>> {
    statement.fetch_all(connection).await.map_err(storage_error)
}

/// Whether there is such an account.
pub(super) async fn exists(connection: &mut SqliteConnection, account: AccountId) -> Result<bool> {
    let statement = sqlx::query(ACCOUNT).bind(id_bytes(account.as_u128()));
    Ok(!rows(connection, statement).await?.is_empty())
}
