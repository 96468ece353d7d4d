//! Implements [`WebhookStore`] on PostgreSQL. Concurrent claims of several nodes wait for each
//! other's row locks and then skip the claimed rows.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::FromRow;
use tollgate_storage::{
    Delivery, DeliveryClaim, DeliveryOutcome, JobDelivery, LeasedDelivery, Result, StorageError, WebhookStore,
};
use tollgate_types::{AccountId, JobId, Timestamp};

use super::error::corrupt;
use super::pool::Pool;
use super::rows;
use crate::jobs::{JobColumns, of_job};
use crate::rows::id_bytes;
use crate::webhooks::{
    DELIVERY, DeliveryColumns, ENDED, IS_DUE, JobDeliveryColumns, REDELIVER, RENEW_SECRET, SECRET, claim,
    finish, list, secret_from,
};

pub(super) struct Webhooks(pub(super) Arc<Pool>);

#[async_trait]
impl WebhookStore for Webhooks {
    async fn claim(&self, claim: DeliveryClaim) -> Result<Vec<LeasedDelivery>> {
        let check = sqlx::query(IS_DUE)
            .bind(claim.now.as_micros())
            .bind(claim.latest_due().as_micros());
        if !rows::get::<bool>(&self.0.one(check).await?, "is_due")? {
            return Ok(Vec::new());
        }
        let claimed = self.0.all(claim!(claim)).await?;
        let leased = |row| JobColumns::from_row(row).map_err(corrupt)?.delivery();
        claimed.iter().map(leased).collect()
    }

    async fn finish(&self, leased: &LeasedDelivery, outcome: DeliveryOutcome) -> Result<()> {
        self.0.execute(finish!(leased, outcome)).await.map(drop)
    }

    async fn delivery(&self, account: AccountId, job: JobId) -> Result<Option<Delivery>> {
        let found = self.0.optional(of_job!(DELIVERY, account, job)).await?;
        found.as_ref().map(rows::whole::<DeliveryColumns, _>).transpose()
    }

    async fn list(&self, account: AccountId, before: Option<JobId>, limit: u32) -> Result<Vec<JobDelivery>> {
        let found = self.0.all(list!(account, before, limit)).await?;
        found.iter().map(rows::whole::<JobDeliveryColumns, _>).collect()
    }

    async fn redeliver(&self, account: AccountId, job: JobId, at: Timestamp) -> Result<Option<JobDelivery>> {
        let statement = of_job!(REDELIVER, account, job).bind(at.as_micros());
        self.0.execute(statement).await?;
        let found = self.0.optional(of_job!(ENDED, account, job)).await?;
        found
            .as_ref()
            .map(rows::whole::<JobDeliveryColumns, _>)
            .transpose()
    }

    async fn secret(&self, account: AccountId) -> Result<u32> {
        let statement = sqlx::query(SECRET).bind(id_bytes(account.as_u128()));
        let found = self.0.optional(statement).await?;
        let number = found.as_ref().map(|row| rows::get(row, "number"));
        secret_from(number.transpose()?)
    }

    async fn renew_secret(&self, account: AccountId) -> Result<u32> {
        let statement = sqlx::query(RENEW_SECRET).bind(id_bytes(account.as_u128()));
        let renewed = self.0.optional(statement).await?;
        let renewed = renewed.ok_or_else(|| StorageError::not_found(account))?;
        secret_from(Some(rows::get(&renewed, "number")?))
    }
}
