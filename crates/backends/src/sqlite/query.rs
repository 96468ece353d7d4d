//! Statements with their values, as the plainer stores of this engine use them.

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use tollgate_storage::{Result, StorageError};
use tollgate_types::AccountId;

use super::{Sqlite, account};
use crate::rows::storage_error;

/// A statement with its values.
pub(super) type Query = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

impl Sqlite {
    /// All rows.
    pub(super) async fn all(&self, statement: Query) -> Result<Vec<SqliteRow>> {
        self.read(move |connection| Box::pin(rows(connection, statement)))
            .await
    }

    /// Executes what sets something for an account. `NotFound` when there is no such account.
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

/// Executes; answers how many rows were changed.
pub(super) async fn execute(connection: &mut SqliteConnection, statement: Query) -> Result<u64> {
    let done = statement.execute(connection).await.map_err(storage_error)?;
    Ok(done.rows_affected())
}

/// All rows, on this connection.
pub(super) async fn rows(connection: &mut SqliteConnection, statement: Query) -> Result<Vec<SqliteRow>> {
    statement.fetch_all(connection).await.map_err(storage_error)
}
