//! Implements [`ClientSecretStore`] on SQLite.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{ClientSecret, ClientSecretCreation, ClientSecretStore, Result, StorageError};
use tollgate_types::{AccountId, ClientSecretId, Credits, Timestamp};

use super::query::execute;
use super::{Sqlite, account};
use crate::client_secrets::{
    ClientSecretColumns, FIND, LIVE, RELEASE, RESERVE, bind_secret, check_reservation, of_secret, released,
};
use crate::rows::{id_bytes, storage_error};

const SWEEP: &str = "DELETE FROM client_secret WHERE rowid IN \
    (SELECT rowid FROM client_secret WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)";

#[async_trait]
impl ClientSecretStore for Sqlite {
    async fn create(&self, secret: ClientSecret, max_live: u32) -> Result<ClientSecretCreation> {
        self.write(
            move |connection| Box::pin(create(connection, secret, max_live)),
            |outcome| outcome,
        )
        .await
    }

    async fn find(&self, digest_prefix: [u8; 16], now: Timestamp) -> Result<Option<ClientSecret>> {
        let statement = sqlx::query(FIND)
            .bind(digest_prefix.to_vec())
            .bind(now.as_micros());
        let found = self.all(statement).await?;
        let columns = found.first().map(ClientSecretColumns::from_row);
        let columns = columns.transpose().map_err(storage_error)?;
        columns.map(ClientSecret::try_from).transpose()
    }

    async fn reserve(&self, account: AccountId, id: ClientSecretId, amount: Credits) -> Result<bool> {
        check_reservation(amount)?;
        let statement = of_secret!(RESERVE, account, id, amount);
        let reserved = self.write_one(move |connection| Box::pin(execute(connection, statement)));
        Ok(reserved.await? > 0)
    }

    async fn correct(
        &self,
        account: AccountId,
        id: ClientSecretId,
        held: Credits,
        charged: Credits,
    ) -> Result<()> {
        let statement = of_secret!(RELEASE, account, id, released(held, charged)?);
        self.write_one(move |connection| Box::pin(execute(connection, statement)))
            .await
            .map(drop)
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

/// Stores a secret. Only one connection writes, so concurrent creations cannot exceed the maximum.
async fn create(
    connection: &mut SqliteConnection,
    secret: ClientSecret,
    max_live: u32,
) -> Result<ClientSecretCreation> {
    let owner = account::get(connection, secret.account).await?;
    let owner = owner.ok_or_else(|| StorageError::not_found(secret.account))?;
    owner.refuse_closed()?;
    let live: i64 = sqlx::query_scalar(LIVE)
        .bind(id_bytes(secret.account.as_u128()))
        .bind(secret.created_at.as_micros())
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if live >= i64::from(max_live) {
        return Ok(ClientSecretCreation::TooMany);
    }
    execute(connection, bind_secret!(&secret)).await?;
    Ok(ClientSecretCreation::Created)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SWEEP];
