//! Implements [`CalibrationStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection, PgConnection, Row};
use tollgate_storage::{
    Calibration, CalibrationFilter, CalibrationStore, NewCalibration, Result, StorageError,
};
use tollgate_types::{AccountId, CalibrationId};

use super::pool::Pool;
use super::rows;
use crate::calibrations::{
    COUNT, CalibrationColumns, DEFAULT, DELETE, GET, NEXT_VERSION, bind_calibration, bind_list, choice,
    of_calibration, of_model,
};
use crate::rows::{id_bytes, taken};

pub(super) struct Calibrations(pub(super) Arc<Pool>);

enum Insertion {
    Done,
    NoAccount,
    OverLimit,
    Taken,
}

#[async_trait]
impl CalibrationStore for Calibrations {
    async fn insert(&self, new: NewCalibration, max: u32) -> Result<Option<Calibration>> {
        let (account, id) = (new.account, new.id);
        let inserted = self
            .0
            .call(move |connection| Box::pin(insert(connection, new, max)))
            .await?;
        match inserted {
            Insertion::Done => self.get(account, id).await,
            Insertion::OverLimit => Ok(None),
            Insertion::NoAccount => Err(StorageError::not_found(account)),
            Insertion::Taken => Err(taken(id)),
        }
    }

    async fn get(&self, account: AccountId, id: CalibrationId) -> Result<Option<Calibration>> {
        let row = self.0.optional(of_calibration!(GET, account, id)).await?;
        row.map(|row| rows::whole::<CalibrationColumns, _>(&row))
            .transpose()
    }

    async fn default_of(&self, account: AccountId, model: &str) -> Result<Option<Calibration>> {
        let statement = of_model!(DEFAULT, account, model.to_owned());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<CalibrationColumns, _>(&row))
            .transpose()
    }

    async fn list(
        &self,
        account: AccountId,
        filter: CalibrationFilter,
        limit: u32,
    ) -> Result<Vec<Calibration>> {
        let found = self.0.all(bind_list!(account, filter, limit)).await?;
        found.iter().map(rows::whole::<CalibrationColumns, _>).collect()
    }

    async fn choose(
        &self,
        account: AccountId,
        id: CalibrationId,
        is_chosen: bool,
    ) -> Result<Option<Calibration>> {
        let statement = of_calibration!(choice(is_chosen), account, id);
        self.0.execute(statement).await?;
        self.get(account, id).await
    }

    async fn delete(&self, account: AccountId, id: CalibrationId) -> Result<bool> {
        Ok(self.0.execute(of_calibration!(DELETE, account, id)).await? > 0)
    }
}

/// Inserts a calibration if the account has fewer than `max`. The account's lock, which covers the
/// count and the insertion, prevents concurrent fits from exceeding the limit.
async fn insert(connection: &mut PgConnection, new: NewCalibration, max: u32) -> sqlx::Result<Insertion> {
    let account = id_bytes(new.account.as_u128());
    let mut transaction = connection.begin().await?;
    let lock = sqlx::query("SELECT 1 FROM account WHERE id = $1 FOR NO KEY UPDATE").bind(account.clone());
    if lock.fetch_optional(&mut *transaction).await?.is_none() {
        return Ok(Insertion::NoAccount);
    }
    let row = sqlx::query(COUNT)
        .bind(account)
        .fetch_one(&mut *transaction)
        .await?;
    if row.try_get::<i64, _>("count")? >= i64::from(max) {
        return Ok(Insertion::OverLimit);
    }
    let row = of_model!(NEXT_VERSION, new.account, new.model.clone())
        .fetch_one(&mut *transaction)
        .await?;
    let version: i64 = row.try_get("versions")?;
    let done = bind_calibration!(new, version).execute(&mut *transaction).await?;
    if done.rows_affected() == 0 {
        return Ok(Insertion::Taken);
    }
    transaction.commit().await?;
    Ok(Insertion::Done)
}
