//! Implements [`FileStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection, PgConnection, Row};
use tollgate_storage::{BlobKey, FileFilter, FileRecord, FileStore, FileUse, Result, StorageError};
use tollgate_types::{AccountId, FileId, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::files::{
    ABANDON_UPLOAD, DELETE, FORGET, FileColumns, GET, LEFTOVER, LeftoverColumns, USED, bind_begin, bind_file,
    bind_list, of_file,
};
use crate::rows::{id_bytes, quantity_column, quantity_from, taken};

pub(super) struct Files(pub(super) Arc<Pool>);

enum Insertion {
    Done,
    NoAccount,
    OverLimit,
    Taken,
}

#[async_trait]
impl FileStore for Files {
    async fn begin(&self, blob: BlobKey, id: FileId, now: Timestamp, until: Timestamp) -> Result<()> {
        if self.0.execute(bind_begin!(blob, id, now, until)).await? > 0 {
            return Ok(());
        }
        let owner = sqlx::query("SELECT 1 FROM account WHERE id = $1").bind(id_bytes(blob.account.as_u128()));
        match self.0.optional(owner).await? {
            Some(_) => Err(taken(id)),
            None => Err(StorageError::not_found(blob.account)),
        }
    }

    async fn abandon_upload(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        let statement = of_file!(ABANDON_UPLOAD, account, id).bind(now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }

    async fn insert(&self, file: FileRecord, max: FileUse) -> Result<bool> {
        let (account, id) = (file.account, file.id);
        match self
            .0
            .call(move |connection| Box::pin(insert(connection, file, max)))
            .await?
        {
            Insertion::Done => Ok(true),
            Insertion::OverLimit => Ok(false),
            Insertion::NoAccount => Err(StorageError::not_found(account)),
            Insertion::Taken => Err(taken(id)),
        }
    }

    async fn get(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<Option<FileRecord>> {
        let statement = of_file!(GET, account, id).bind(now.as_micros());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<FileColumns, _>(&row)).transpose()
    }

    async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>> {
        let found = self.0.all(bind_list!(account, filter, now, limit)).await?;
        found.iter().map(rows::whole::<FileColumns, _>).collect()
    }

    async fn used(&self, account: AccountId, now: Timestamp) -> Result<FileUse> {
        let statement = sqlx::query(USED)
            .bind(id_bytes(account.as_u128()))
            .bind(now.as_micros());
        let row = self.0.one(statement).await?;
        Ok(FileUse {
            files: quantity_from(rows::get(&row, "files")?)?,
            bytes: quantity_from(rows::get(&row, "bytes")?)?,
        })
    }

    async fn delete(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        let statement = of_file!(DELETE, account, id).bind(now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }

    async fn leftover(&self, now: Timestamp, limit: u32) -> Result<Vec<(FileId, BlobKey)>> {
        let statement = sqlx::query(LEFTOVER).bind(now.as_micros()).bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<LeftoverColumns, _>).collect()
    }

    async fn forget(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        let statement = of_file!(FORGET, account, id).bind(now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }
}

/// Inserts a file if the account stays within `max`. The account's lock, which covers the sum and
/// the insertion, prevents concurrent uploads from exceeding the limit.
async fn insert(connection: &mut PgConnection, file: FileRecord, max: FileUse) -> sqlx::Result<Insertion> {
    let account = id_bytes(file.account.as_u128());
    let mut transaction = connection.begin().await?;
    let lock = sqlx::query("SELECT 1 FROM account WHERE id = $1 FOR NO KEY UPDATE").bind(account.clone());
    if lock.fetch_optional(&mut *transaction).await?.is_none() {
        return Ok(Insertion::NoAccount);
    }
    let sum = sqlx::query(USED).bind(account).bind(file.created_at.as_micros());
    let used = sum.fetch_one(&mut *transaction).await?;
    let (files, bytes): (i64, i64) = (used.try_get("files")?, used.try_get("bytes")?);
    let after = bytes.saturating_add(quantity_column(file.bytes));
    if files >= quantity_column(max.files) || after > quantity_column(max.bytes) {
        return Ok(Insertion::OverLimit);
    }
    let done = bind_file!(file).execute(&mut *transaction).await?;
    if done.rows_affected() == 0 {
        return Ok(Insertion::Taken);
    }
    transaction.commit().await?;
    Ok(Insertion::Done)
}
