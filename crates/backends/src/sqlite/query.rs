//! Helpers for stores whose methods execute single statements.

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use tollgate_storage::{Result, StorageError};
use tollgate_types::AccountId;

use super::{Sqlite, account};
use crate::rows::storage_error;

/// A statement with its bound values.
pub(super) type Query = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

impl Sqlite {
    /// Returns all rows of a statement, executed on a reading connection.
    pub(super) async fn all(&self, statement: Query) -> Result<Vec<SqliteRow>> {
        self.read(move |connection| Box::pin(rows(connection, statement)))
            .await
    }

    /// Executes a statement that changes a setting of an account. Returns `NotFound` if the account
    /// does not exist.
    pub(super) async fn set_for(&self, owner: AccountId, statement: Query) -> Result<()> {
        let set = self.write(
            move |connection| {
                Box::pin(async move {
                    execute(connection, statement).await?;
                    account::get(connection, owner).await
                })
            },
            |found| found,
        );
        set.await?.map(drop).ok_or_else(|| StorageError::not_found(owner))
    }
}

/// Executes a statement; returns the number of changed rows.
pub(super) async fn execute(connection: &mut SqliteConnection, statement: Query) -> Result<u64> {
    let done = statement.execute(connection).await.map_err(storage_error)?;
    Ok(done.rows_affected())
}

/// Returns all rows of a statement, executed on this connection.
pub(super) async fn rows(connection: &mut SqliteConnection, statement: Query) -> Result<Vec<SqliteRow>> {
    statement.fetch_all(connection).await.map_err(storage_error)
}
