//! Implements [`CalibrationStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{
    Calibration, CalibrationFilter, CalibrationStore, NewCalibration, Result, StorageError,
};
use tollgate_types::{AccountId, CalibrationId};

use super::{Sqlite, account};
use crate::calibrations::{
    COUNT, CalibrationColumns, DEFAULT, DELETE, GET, NEXT_VERSION, bind_calibration, bind_list, choice,
    of_calibration, of_model,
};
use crate::rows::{id_bytes, storage_error, taken};

#[async_trait]
impl CalibrationStore for Sqlite {
    async fn insert(&self, new: NewCalibration, max: u32) -> Result<Option<Calibration>> {
        self.write(
            move |connection| Box::pin(insert(connection, new, max)),
            |inserted| inserted,
        )
        .await
    }

    async fn get(&self, account: AccountId, id: CalibrationId) -> Result<Option<Calibration>> {
        self.read(move |connection| Box::pin(get(connection, account, id)))
            .await
    }

    async fn default_of(&self, account: AccountId, model: &str) -> Result<Option<Calibration>> {
        let model = model.to_owned();
        self.read(move |connection| Box::pin(default_of(connection, account, model)))
            .await
    }

    async fn list(
        &self,
        account: AccountId,
        filter: CalibrationFilter,
        limit: u32,
    ) -> Result<Vec<Calibration>> {
        self.read(move |connection| Box::pin(list(connection, account, filter, limit)))
            .await
    }

    async fn choose(
        &self,
        account: AccountId,
        id: CalibrationId,
        is_chosen: bool,
    ) -> Result<Option<Calibration>> {
        self.write(
            move |connection| Box::pin(choose(connection, account, id, is_chosen)),
            |chosen| chosen,
        )
        .await
    }

    async fn delete(&self, account: AccountId, id: CalibrationId) -> Result<bool> {
        self.write(
            move |connection| Box::pin(delete(connection, account, id)),
            |deleted| deleted,
        )
        .await
    }
}

/// Inserts a calibration if the account has fewer than `max` calibrations; otherwise returns
/// `None`. Only one connection writes, so concurrent insertions cannot exceed the limit.
async fn insert(
    connection: &mut SqliteConnection,
    new: NewCalibration,
    max: u32,
) -> Result<Option<Calibration>> {
    let (account, id) = (new.account, new.id);
    let owner = account::get(connection, account).await?;
    owner.ok_or_else(|| StorageError::not_found(account))?;
    let count: i64 = sqlx::query_scalar(COUNT)
        .bind(id_bytes(account.as_u128()))
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if count >= i64::from(max) {
        return Ok(None);
    }
    let row = of_model!(NEXT_VERSION, account, new.model.clone())
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    let version: i64 = row.try_get("versions").map_err(storage_error)?;
    let done = bind_calibration!(new, version)
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(taken(id)),
        _ => get(connection, account, id).await,
    }
}

async fn get(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: CalibrationId,
) -> Result<Option<Calibration>> {
    let row = of_calibration!(GET, account, id)
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.as_ref().map(whole).transpose()
}

async fn default_of(
    connection: &mut SqliteConnection,
    account: AccountId,
    model: String,
) -> Result<Option<Calibration>> {
    let row = of_model!(DEFAULT, account, model)
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.as_ref().map(whole).transpose()
}

async fn list(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: CalibrationFilter,
    limit: u32,
) -> Result<Vec<Calibration>> {
    let rows = bind_list!(account, filter, limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.iter().map(whole).collect()
}

async fn choose(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: CalibrationId,
    is_chosen: bool,
) -> Result<Option<Calibration>> {
    of_calibration!(choice(is_chosen), account, id)
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    get(connection, account, id).await
}

async fn delete(connection: &mut SqliteConnection, account: AccountId, id: CalibrationId) -> Result<bool> {
    let done = of_calibration!(DELETE, account, id)
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected() > 0)
}

fn whole(row: &SqliteRow) -> Result<Calibration> {
    CalibrationColumns::from_row(row)
        .map_err(storage_error)?
        .try_into()
}
