//! Implements [`WebhookStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{
    Delivery, DeliveryClaim, DeliveryOutcome, JobDelivery, LeasedDelivery, Result, StorageError, WebhookStore,
};
use tollgate_types::{AccountId, JobId, Timestamp};

use super::Sqlite;
use super::query::{Query, execute, rows};
use crate::jobs::{JobColumns, of_job};
use crate::rows::{id_bytes, storage_error};
use crate::webhooks::{
    DELIVERY, DeliveryColumns, ENDED, IS_DUE, JobDeliveryColumns, REDELIVER, RENEW_SECRET, SECRET, claim,
    finish, list, secret_from,
};

/// Statement that releases the deliveries leased by an earlier process and makes them due
/// immediately.
const ABANDON: &str = "UPDATE job SET webhook_leased = 0, webhook_due_at = 0 WHERE webhook_leased = 1";

#[async_trait]
impl WebhookStore for Sqlite {
    async fn claim(&self, claim: DeliveryClaim) -> Result<Vec<LeasedDelivery>> {
        let check = self
            .all(
                sqlx::query(IS_DUE)
                    .bind(claim.now.as_micros())
                    .bind(claim.latest_due().as_micros()),
            )
            .await?;
        let is_due: Option<bool> = column(check.first(), "is_due")?;
        if is_due != Some(true) {
            return Ok(Vec::new());
        }
        let statement: Query = claim!(claim);
        let claimed = self.write(
            move |connection| Box::pin(rows(connection, statement)),
            |claimed| claimed,
        );
        let leased = |row| JobColumns::from_row(row).map_err(storage_error)?.delivery();
        claimed.await?.iter().map(leased).collect()
    }

    async fn finish(&self, leased: &LeasedDelivery, outcome: DeliveryOutcome) -> Result<()> {
        let statement: Query = finish!(leased, outcome);
        self.write(move |connection| Box::pin(execute(connection, statement)), |_| ())
            .await
    }

    async fn delivery(&self, account: AccountId, job: JobId) -> Result<Option<Delivery>> {
        let found = self.all(of_job!(DELIVERY, account, job)).await?;
        let delivery = |row| DeliveryColumns::from_row(row).map_err(storage_error)?.try_into();
        found.first().map(delivery).transpose()
    }

    async fn list(&self, account: AccountId, before: Option<JobId>, limit: u32) -> Result<Vec<JobDelivery>> {
        let found = self.all(list!(account, before, limit)).await?;
        found.iter().map(job_delivery).collect()
    }

    async fn redeliver(&self, account: AccountId, job: JobId, at: Timestamp) -> Result<Option<JobDelivery>> {
        let statement: Query = of_job!(REDELIVER, account, job).bind(at.as_micros());
        self.write(move |connection| Box::pin(execute(connection, statement)), |_| ())
            .await?;
        let found = self.all(of_job!(ENDED, account, job)).await?;
        found.first().map(job_delivery).transpose()
    }

    async fn secret(&self, account: AccountId) -> Result<u32> {
        let statement = sqlx::query(SECRET).bind(id_bytes(account.as_u128()));
        secret_from(column(self.all(statement).await?.first(), "number")?)
    }

    async fn renew_secret(&self, account: AccountId) -> Result<u32> {
        let statement: Query = sqlx::query(RENEW_SECRET).bind(id_bytes(account.as_u128()));
        let renewed = self.write(
            move |connection| Box::pin(rows(connection, statement)),
            |renewed| renewed,
        );
        match column(renewed.await?.first(), "number")? {
            None => Err(StorageError::not_found(account)),
            number => secret_from(number),
        }
    }
}

fn job_delivery(row: &SqliteRow) -> Result<JobDelivery> {
    JobDeliveryColumns::from_row(row)
        .map_err(storage_error)?
        .try_into()
}

/// Releases the deliveries leased in earlier runs.
pub(super) async fn abandon(connection: &mut SqliteConnection) -> Result<()> {
    let abandoned = sqlx::query(ABANDON).execute(connection).await;
    abandoned.map(drop).map_err(storage_error)
}

/// Returns a column of a row; `None` if `row` is `None`.
fn column<'r, T>(row: Option<&'r SqliteRow>, name: &str) -> Result<Option<T>>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.map(|row| row.try_get(name))
        .transpose()
        .map_err(storage_error)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ABANDON];
