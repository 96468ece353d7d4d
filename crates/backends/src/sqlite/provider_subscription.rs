//! Implements [`ProviderSubscriptionStore`] on SQLite.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tollgate_storage::{
    ProviderSubscription, ProviderSubscriptionChange, ProviderSubscriptionStore, Result, StorageError,
    StorageErrorKind,
};
use tollgate_types::{AccountId, SubscriptionId, Timestamp};

use super::query::{Query, execute, rows};
use super::{Sqlite, account};
use crate::provider_subscriptions::{
    BY_REFERENCE, DUE, GET, INSERT, OUT_OF_SYNC, PENDING, ProviderSubscriptionColumns, UPDATE,
    bind_provider_subscription,
};
use crate::rows::{id_bytes, storage_error};

#[async_trait]
impl ProviderSubscriptionStore for Sqlite {
    async fn create(&self, new: ProviderSubscription) -> Result<()> {
        self.write(
            move |connection| Box::pin(create(connection, new)),
            |created| created,
        )
        .await
    }

    async fn get(&self, id: SubscriptionId) -> Result<Option<ProviderSubscription>> {
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn by_reference(&self, reference: &str) -> Result<Option<ProviderSubscription>> {
        let statement = sqlx::query(BY_REFERENCE).bind(reference.to_owned());
        Ok(self.provider_subscriptions(statement).await?.into_iter().next())
    }

    async fn pending(&self, account: AccountId) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(PENDING).bind(id_bytes(account.as_u128()));
        self.provider_subscriptions(statement).await
    }

    async fn change(
        &self,
        id: SubscriptionId,
        change: ProviderSubscriptionChange,
        at: Timestamp,
    ) -> Result<ProviderSubscription> {
        self.write(
            move |connection| Box::pin(apply_change(connection, id, change, at)),
            |changed| changed,
        )
        .await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(DUE).bind(now.as_micros()).bind(i64::from(limit));
        self.provider_subscriptions(statement).await
    }

    async fn out_of_sync(&self, limit: u32) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(OUT_OF_SYNC).bind(i64::from(limit));
        self.provider_subscriptions(statement).await
    }
}

impl Sqlite {
    async fn provider_subscriptions(&self, statement: Query) -> Result<Vec<ProviderSubscription>> {
        self.all(statement).await?.iter().map(subscription).collect()
    }
}

fn subscription(row: &SqliteRow) -> Result<ProviderSubscription> {
    ProviderSubscriptionColumns::from_row(row)
        .map_err(storage_error)?
        .try_into()
}

async fn get(connection: &mut SqliteConnection, id: SubscriptionId) -> Result<Option<ProviderSubscription>> {
    let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
    let found = rows(connection, statement).await?;
    found.first().map(subscription).transpose()
}

async fn create(connection: &mut SqliteConnection, new: ProviderSubscription) -> Result<()> {
    if get(connection, new.id).await?.is_some() {
        return Err(StorageError::new(StorageErrorKind::Conflict, new.id.to_string()));
    }
    if account::get(connection, new.account).await?.is_none() {
        return Err(StorageError::not_found(new.account));
    }
    let statement = bind_provider_subscription!(INSERT, &new);
    execute(connection, statement).await.map(drop)
}

async fn apply_change(
    connection: &mut SqliteConnection,
    id: SubscriptionId,
    change: ProviderSubscriptionChange,
    at: Timestamp,
) -> Result<ProviderSubscription> {
    let before = get(connection, id).await?;
    let after = before
        .ok_or_else(|| StorageError::not_found(id))?
        .after(change, at)?;
    execute(connection, bind_provider_subscription!(UPDATE, &after)).await?;
    Ok(after)
}
