//! Implements [`ClientSecretStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tollgate_storage::{ClientSecret, ClientSecretCreation, ClientSecretStore, Result};
use tollgate_types::{AccountId, ClientSecretId, Credits, Timestamp};

use super::account::locked;
use super::error::while_running;
use super::lot::transact;
use super::pool::Pool;
use super::rows;
use super::subscription::execute;
use crate::client_secrets::{
    ClientSecretColumns, FIND, LIVE, RELEASE, RESERVE, bind_secret, check_reservation, of_secret, released,
};
use crate::rows::id_bytes;

pub(super) struct ClientSecrets(pub(super) Arc<Pool>);

const SWEEP: &str = "DELETE FROM client_secret WHERE (account_id, id) IN (
        SELECT account_id, id FROM client_secret WHERE expires_at < $1 ORDER BY expires_at LIMIT $2
        FOR UPDATE SKIP LOCKED
    )";

#[async_trait]
impl ClientSecretStore for ClientSecrets {
    async fn create(&self, secret: ClientSecret, max_live: u32) -> Result<ClientSecretCreation> {
        transact(&self.0, move |connection| {
            Box::pin(create(connection, secret, max_live))
        })
        .await
    }

    async fn find(&self, digest_prefix: [u8; 16], now: Timestamp) -> Result<Option<ClientSecret>> {
        let statement = sqlx::query(FIND)
            .bind(digest_prefix.to_vec())
            .bind(now.as_micros());
        let row = self.0.optional(statement).await?;
        row.as_ref()
            .map(rows::whole::<ClientSecretColumns, _>)
            .transpose()
    }

    async fn reserve(&self, account: AccountId, id: ClientSecretId, amount: Credits) -> Result<bool> {
        check_reservation(amount)?;
        let reserved = self.0.execute(of_secret!(RESERVE, account, id, amount));
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
        self.0.execute(statement).await.map(drop)
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SWEEP).bind(before.as_micros()).bind(i64::from(limit));
        self.0.execute(statement).await
    }
}

/// Stores a secret. The account's lock, which covers the count and the insertion, prevents
/// concurrent creations from exceeding the maximum.
async fn create(
    connection: &mut PgConnection,
    secret: ClientSecret,
    max_live: u32,
) -> Result<ClientSecretCreation> {
    locked(connection, secret.account).await?.refuse_closed()?;
    let live = sqlx::query(LIVE)
        .bind(id_bytes(secret.account.as_u128()))
        .bind(secret.created_at.as_micros());
    let live = live.fetch_one(&mut *connection).await.map_err(while_running)?;
    if rows::get::<i64>(&live, "live")? >= i64::from(max_live) {
        return Ok(ClientSecretCreation::TooMany);
    }
    execute(connection, bind_secret!(&secret)).await?;
    Ok(ClientSecretCreation::Created)
}
