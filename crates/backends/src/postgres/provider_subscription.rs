//! Implements [`ProviderSubscriptionStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tollgate_storage::{
    ProviderSubscription, ProviderSubscriptionChange, ProviderSubscriptionStore, Result, StorageError,
    StorageErrorKind,
};
use tollgate_types::{AccountId, SubscriptionId, Timestamp};

use super::error::while_running;
use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use super::top_up::check_account;
use crate::provider_subscriptions::{
    BY_REFERENCE, DUE, GET, INSERT, OUT_OF_SYNC, PENDING, ProviderSubscriptionColumns, UPDATE,
    bind_provider_subscription,
};
use crate::rows::id_bytes;

pub(super) struct ProviderSubscriptions(pub(super) Arc<Pool>);

#[async_trait]
impl ProviderSubscriptionStore for ProviderSubscriptions {
    async fn create(&self, new: ProviderSubscription) -> Result<()> {
        if self.0.execute(bind_provider_subscription!(INSERT, &new)).await? > 0 {
            return Ok(());
        }
        check_account(&self.0, new.account).await?;
        Err(StorageError::new(StorageErrorKind::Conflict, new.id.to_string()))
    }

    async fn get(&self, id: SubscriptionId) -> Result<Option<ProviderSubscription>> {
        let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
        let row = self.0.optional(statement).await?;
        row.as_ref().map(subscription).transpose()
    }

    async fn by_reference(&self, reference: &str) -> Result<Option<ProviderSubscription>> {
        let statement = sqlx::query(BY_REFERENCE).bind(reference.to_owned());
        let row = self.0.optional(statement).await?;
        row.as_ref().map(subscription).transpose()
    }

    async fn pending(&self, account: AccountId) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(PENDING).bind(id_bytes(account.as_u128()));
        self.0.all(statement).await?.iter().map(subscription).collect()
    }

    async fn change(
        &self,
        id: SubscriptionId,
        change: ProviderSubscriptionChange,
        at: Timestamp,
    ) -> Result<ProviderSubscription> {
        transact(&self.0, move |connection| {
            Box::pin(apply_change(connection, id, change, at))
        })
        .await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(DUE).bind(now.as_micros()).bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(subscription).collect()
    }

    async fn out_of_sync(&self, limit: u32) -> Result<Vec<ProviderSubscription>> {
        let statement = sqlx::query(OUT_OF_SYNC).bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(subscription).collect()
    }
}

fn subscription(row: &PgRow) -> Result<ProviderSubscription> {
    rows::whole::<ProviderSubscriptionColumns, _>(row)
}

async fn apply_change(
    connection: &mut PgConnection,
    id: SubscriptionId,
    change: ProviderSubscriptionChange,
    at: Timestamp,
) -> Result<ProviderSubscription> {
    let check: Statement = sqlx::query(AssertSqlSafe(format!("{GET} FOR UPDATE")));
    let row = check
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let found = row.as_ref().map(subscription).transpose()?;
    let after = found
        .ok_or_else(|| StorageError::not_found(id))?
        .after(change, at)?;
    execute(connection, bind_provider_subscription!(UPDATE, &after)).await?;
    Ok(after)
}
