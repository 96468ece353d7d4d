//! SQL of account files that SQLite and PostgreSQL share.

use tollgate_storage::{BlobKey, FilePurpose, FileRecord, Result, StorageError};
use tollgate_types::{AccountId, FileId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, id_from, quantity_from};

pub(crate) const INSERT: &str = "INSERT INTO file (account_id, id, object, sha256, bytes, filename, media_type, purpose, \
    lines, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
    ON CONFLICT (account_id, id) DO UPDATE SET sha256 = excluded.sha256, bytes = excluded.bytes, \
    filename = excluded.filename, media_type = excluded.media_type, purpose = excluded.purpose, lines = excluded.lines, \
    created_at = excluded.created_at, expires_at = excluded.expires_at, deleted_at = NULL \
    WHERE file.object = excluded.object AND file.deleted_at > excluded.created_at";
/// Registers a file before its upload. The row has a deletion time until the upload is complete.
pub(crate) const BEGIN: &str = "INSERT INTO file (account_id, id, object, sha256, bytes, filename, media_type, purpose, \
    created_at, deleted_at) SELECT id, $2, $3, $4, 0, '', '', '', $5, $6 FROM account WHERE id = $1 \
    ON CONFLICT DO NOTHING";
pub(crate) const GET: &str = "SELECT * FROM file WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL \
    AND (expires_at IS NULL OR expires_at > $3)";
pub(crate) const LIST: &str = "SELECT * FROM file WHERE account_id = $1 AND id < $2 AND purpose = COALESCE($3, purpose) \
    AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > $4) ORDER BY id DESC LIMIT $5";
pub(crate) const LIST_ASCENDING: &str = "SELECT * FROM file WHERE account_id = $1 AND id > $2 \
    AND purpose = COALESCE($3, purpose) AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > $4) \
    ORDER BY id LIMIT $5";
/// Counts the files of an account and their bytes. Deleted and expired files do not count, even if
/// their bytes still exist.
pub(crate) const USED: &str = "SELECT count(*) AS files, CAST(COALESCE(sum(bytes), 0) AS BIGINT) AS bytes FROM file \
    WHERE account_id = $1 AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
pub(crate) const DELETE: &str = "UPDATE file SET deleted_at = $3 WHERE account_id = $1 AND id = $2 \
    AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > $3)";
pub(crate) const ABANDON_UPLOAD: &str = "UPDATE file SET deleted_at = $3 WHERE account_id = $1 AND id = $2 \
    AND deleted_at > $3";
pub(crate) const LEFTOVER: &str =
    "SELECT account_id, id, object FROM file WHERE deleted_at <= $1 OR expires_at <= $1 LIMIT $2";
pub(crate) const FORGET: &str = "DELETE FROM file WHERE account_id = $1 AND id = $2 \
    AND (deleted_at <= $3 OR expires_at <= $3)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    INSERT,
    BEGIN,
    GET,
    LIST,
    LIST_ASCENDING,
    USED,
    DELETE,
    ABANDON_UPLOAD,
    LEFTOVER,
    FORGET,
];

/// Binds an account and a file id to a statement, for any engine.
macro_rules! of_file {
    ($statement:expr, $account:expr, $file:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes($file.as_u128()))
    };
}

/// Binds a file to [`INSERT`], for any engine.
macro_rules! bind_file {
    ($file:expr) => {
        $crate::files::of_file!($crate::files::INSERT, $file.account, $file.id)
            .bind($crate::rows::id_bytes($file.object))
            .bind($file.sha256.to_vec())
            .bind($crate::rows::quantity_column($file.bytes))
            .bind($file.filename.clone())
            .bind($file.media_type.clone())
            .bind($file.purpose.as_str())
            .bind($file.lines.map($crate::rows::quantity_column))
            .bind($file.created_at.as_micros())
            .bind($file.expires_at.map(tollgate_types::Timestamp::as_micros))
    };
}

/// Binds a file whose upload has started to [`BEGIN`], for any engine.
macro_rules! bind_begin {
    ($blob:expr, $id:expr, $now:expr, $until:expr) => {
        $crate::files::of_file!($crate::files::BEGIN, $blob.account, $id)
            .bind($crate::rows::id_bytes($blob.object))
            .bind(vec![0_u8; 32])
            .bind($now.as_micros())
            .bind($until.as_micros())
    };
}

/// Binds an account, a filter and a limit to [`LIST`] or [`LIST_ASCENDING`], for any engine.
macro_rules! bind_list {
    ($account:expr, $filter:expr, $now:expr, $limit:expr) => {{
        let (statement, edge) = match $filter.is_ascending {
            true => ($crate::files::LIST_ASCENDING, u8::MIN),
            false => ($crate::files::LIST, u8::MAX),
        };
        let after = $filter.after.map(tollgate_types::FileId::as_u128);
        sqlx::query(statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::page_edge(after, edge))
            .bind($filter.purpose.map(tollgate_storage::FilePurpose::as_str))
            .bind($now.as_micros())
            .bind(i64::from($limit))
    }};
}

pub(crate) use {bind_begin, bind_file, bind_list, of_file};

columns! {
    /// A row of [`LEFTOVER`]: a file that was deleted or has expired, and the key of its object.
    pub(crate) struct LeftoverColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        object: Vec<u8>,
    }
}

impl TryFrom<LeftoverColumns> for (FileId, BlobKey) {
    type Error = StorageError;

    fn try_from(columns: LeftoverColumns) -> Result<(FileId, BlobKey)> {
        let blob = BlobKey {
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            object: id_from(&columns.object)?,
        };
        Ok((FileId::from_u128(id_from(&columns.id)?), blob))
    }
}

columns! {
    /// A row of `file`.
    pub(crate) struct FileColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        object: Vec<u8>,
        sha256: Vec<u8>,
        bytes: i64,
        filename: String,
        media_type: String,
        purpose: String,
        lines: Option<i64>,
        created_at: i64,
        expires_at: Option<i64>,
    }
}

impl TryFrom<FileColumns> for FileRecord {
    type Error = StorageError;

    fn try_from(columns: FileColumns) -> Result<FileRecord> {
        let purpose = FilePurpose::parse(&columns.purpose);
        let sha256 = columns.sha256.try_into();
        Ok(FileRecord {
            id: FileId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            object: id_from(&columns.object)?,
            sha256: sha256.map_err(|_| corrupt("invalid file digest"))?,
            bytes: quantity_from(columns.bytes)?,
            filename: columns.filename,
            media_type: columns.media_type,
            purpose: purpose.ok_or_else(|| corrupt(format!("unknown file purpose '{}'", columns.purpose)))?,
            lines: columns.lines.map(quantity_from).transpose()?,
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: columns.expires_at.map(Timestamp::from_micros),
        })
    }
}
