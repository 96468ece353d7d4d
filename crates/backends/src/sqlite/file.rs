//! Implements [`FileStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{BlobKey, FileFilter, FileRecord, FileStore, FileUse, Result, StorageError};
use tollgate_types::{AccountId, FileId, Timestamp};

use super::{Sqlite, account};
use crate::files::{
    ABANDON_UPLOAD, DELETE, FORGET, FileColumns, GET, LEFTOVER, LeftoverColumns, USED, bind_begin, bind_file,
    bind_list, of_file,
};
use crate::rows::{id_bytes, quantity_from, storage_error, taken};

#[async_trait]
impl FileStore for Sqlite {
    async fn begin(&self, blob: BlobKey, id: FileId, now: Timestamp, until: Timestamp) -> Result<()> {
        self.write(
            move |connection| Box::pin(begin(connection, blob, id, now, until)),
            |()| (),
        )
        .await
    }

    async fn abandon_upload(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(change(connection, ABANDON_UPLOAD, account, id, now)),
            |given_up| given_up,
        )
        .await
    }

    async fn insert(&self, file: FileRecord, max: FileUse) -> Result<bool> {
        self.write(
            move |connection| Box::pin(insert(connection, file, max)),
            |written| written,
        )
        .await
    }

    async fn get(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<Option<FileRecord>> {
        self.read(move |connection| Box::pin(get(connection, account, id, now)))
            .await
    }

    async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>> {
        self.read(move |connection| Box::pin(list(connection, account, filter, now, limit)))
            .await
    }

    async fn used(&self, account: AccountId, now: Timestamp) -> Result<FileUse> {
        self.read(move |connection| Box::pin(used(connection, account, now)))
            .await
    }

    async fn delete(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(change(connection, DELETE, account, id, now)),
            |deleted| deleted,
        )
        .await
    }

    async fn leftover(&self, now: Timestamp, limit: u32) -> Result<Vec<(FileId, BlobKey)>> {
        self.read(move |connection| Box::pin(leftover(connection, now, limit)))
            .await
    }

    async fn forget(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(change(connection, FORGET, account, id, now)),
            |forgotten| forgotten,
        )
        .await
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    blob: BlobKey,
    id: FileId,
    now: Timestamp,
    until: Timestamp,
) -> Result<()> {
    let owner = account::get(connection, blob.account).await?;
    owner.ok_or_else(|| StorageError::not_found(blob.account))?;
    let done = bind_begin!(blob, id, now, until)
        .execute(connection)
        .await
        .map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(taken(id)),
        _ => Ok(()),
    }
}

/// Inserts a file if the account stays within `max`; otherwise returns `false`. Only one connection
/// writes, so concurrent insertions cannot exceed the limit.
async fn insert(connection: &mut SqliteConnection, file: FileRecord, max: FileUse) -> Result<bool> {
    let owner = account::get(connection, file.account).await?;
    owner.ok_or_else(|| StorageError::not_found(file.account))?;
    let used = used(connection, file.account, file.created_at).await?;
    if used.files >= max.files || used.bytes.saturating_add(file.bytes) > max.bytes {
        return Ok(false);
    }
    let done = bind_file!(file)
        .execute(connection)
        .await
        .map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(taken(file.id)),
        _ => Ok(true),
    }
}

async fn get(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: FileId,
    now: Timestamp,
) -> Result<Option<FileRecord>> {
    let columns: Option<FileColumns> = sqlx::query_as(GET)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(id.as_u128()))
        .bind(now.as_micros())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(FileRecord::try_from).transpose()
}

async fn list(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: FileFilter,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<FileRecord>> {
    let rows = bind_list!(account, filter, now, limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.iter().map(whole).collect()
}

async fn used(connection: &mut SqliteConnection, account: AccountId, now: Timestamp) -> Result<FileUse> {
    let row = sqlx::query(USED)
        .bind(id_bytes(account.as_u128()))
        .bind(now.as_micros())
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    Ok(FileUse {
        files: quantity_from(row.try_get("files").map_err(storage_error)?)?,
        bytes: quantity_from(row.try_get("bytes").map_err(storage_error)?)?,
    })
}

async fn leftover(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<(FileId, BlobKey)>> {
    let rows: Vec<LeftoverColumns> = sqlx::query_as(LEFTOVER)
        .bind(now.as_micros())
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(TryInto::try_into).collect()
}

async fn change(
    connection: &mut SqliteConnection,
    statement: &'static str,
    account: AccountId,
    id: FileId,
    now: Timestamp,
) -> Result<bool> {
    let done = of_file!(statement, account, id)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected() > 0)
}

fn whole(row: &SqliteRow) -> Result<FileRecord> {
    FileColumns::from_row(row).map_err(storage_error)?.try_into()
}
