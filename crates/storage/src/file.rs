//! Uploaded files: a metadata row for each file, whose bytes are in a [`crate::BlobStore`], and a
//! reader for the files that requests reference by id.

use async_trait::async_trait;
use tollgate_types::{AccountId, FileId, Timestamp};

use crate::{BlobKey, Result, StorageError};

/// Purpose of a file, as declared by its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePurpose {
    /// Input documents of assistants.
    Assistants,
    /// Requests of a batch, one per line.
    Batch,
    /// Training examples for fine-tuning.
    FineTune,
    /// Images as input of vision models.
    Vision,
    /// Any input of requests.
    UserData,
    /// Data for evaluations.
    Evals,
    /// Results of a batch. Callers cannot upload files with this purpose.
    BatchOutput,
}

impl FilePurpose {
    /// All purposes, `BatchOutput` included.
    pub const ALL: [FilePurpose; 7] = [
        FilePurpose::Assistants,
        FilePurpose::Batch,
        FilePurpose::FineTune,
        FilePurpose::Vision,
        FilePurpose::UserData,
        FilePurpose::Evals,
        FilePurpose::BatchOutput,
    ];

    /// Returns the name used on the wire and in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            FilePurpose::Assistants => "assistants",
            FilePurpose::Batch => "batch",
            FilePurpose::FineTune => "fine-tune",
            FilePurpose::Vision => "vision",
            FilePurpose::UserData => "user_data",
            FilePurpose::Evals => "evals",
            FilePurpose::BatchOutput => "batch_output",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == name)
    }
}

/// Metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Unique id; later files have greater ids.
    pub id: FileId,
    /// Account that owns the file.
    pub account: AccountId,
    /// Object number in the [`BlobKey`] of the file's bytes.
    pub object: u128,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub bytes: u64,
    /// File name sent by the uploader.
    pub filename: String,
    /// Media type detected from the first bytes, in lower case and without parameters; the content
    /// type sent by the uploader is ignored.
    pub media_type: String,
    /// Declared purpose of the file.
    pub purpose: FilePurpose,
    /// Number of non-empty lines, for files that contain one request per line.
    pub lines: Option<u64>,
    /// Time when the file was stored.
    pub created_at: Timestamp,
    /// Time from which the file is hidden from its owner; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl FileRecord {
    /// Returns the key of the file's bytes.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }
}

/// Number and size of an account's files, as usage or as a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Number of files.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Filter and order of a file list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    /// Only files with this purpose.
    pub purpose: Option<FilePurpose>,
    /// Only files that follow this one in the order of the list; the file may have been deleted.
    pub after: Option<FileId>,
    /// Whether the oldest file comes first instead of the newest.
    pub is_ascending: bool,
}

/// Stores the metadata of files. A deleted or expired file is invisible, but its row remains until
/// its bytes are deleted.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// Records an upload before its bytes are written. If the file is never inserted,
    /// [`leftover`](Self::leftover) returns its bytes from `until` on. `NotFound` if the account
    /// does not exist, `Conflict` if the id exists.
    async fn begin(&self, blob: BlobKey, id: FileId, now: Timestamp, until: Timestamp) -> Result<()>;

    /// Abandons an upload: from now on, [`leftover`](Self::leftover) returns its bytes. Returns
    /// whether the upload existed.
    async fn abandon_upload(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Records a file whose bytes are stored, unless the account would then exceed `max`; returns
    /// whether the file was recorded. `NotFound` if the account does not exist, `Conflict` if the
    /// id belongs to another file.
    async fn insert(&self, file: FileRecord, max: FileUse) -> Result<bool>;

    /// Returns the account's file with this id; `None` if it does not exist, is deleted or has
    /// expired.
    async fn get(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<Option<FileRecord>>;

    /// Lists up to `limit` files of an account that are neither deleted nor expired.
    async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>>;

    /// Returns the number and the total size of an account's visible files.
    async fn used(&self, account: AccountId, now: Timestamp) -> Result<FileUse>;

    /// Marks the file as deleted; returns whether it existed.
    async fn delete(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Lists up to `limit` deleted, expired or abandoned files whose bytes may still exist.
    async fn leftover(&self, now: Timestamp, limit: u32) -> Result<Vec<(FileId, BlobKey)>>;

    /// Removes the row of a deleted, expired or abandoned file after its bytes were deleted;
    /// returns whether the row existed.
    async fn forget(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;
}

/// Content of a file that a request references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The whole content.
    pub bytes: Vec<u8>,
    /// Media type detected from the first bytes, in lower case and without parameters; the content
    /// type sent by the uploader is ignored.
    pub media_type: String,
    /// File name sent by the uploader.
    pub filename: String,
}

/// Reason why a file could not be read.
#[derive(Debug)]
pub enum FileError {
    /// The account has no file with this id. Files of other accounts are reported as not found,
    /// too.
    NotFound,
    /// The file is larger than `max_bytes`.
    TooLarge,
    /// The storage engine failed.
    Storage(StorageError),
}

/// Result of reading a file.
pub type FileResult = std::result::Result<StoredFile, FileError>;

/// Reads files by the ids in requests.
#[async_trait]
pub trait FileSource: Send + Sync {
    /// Reads the account's file with this id and returns its bytes as uploaded. `TooLarge` if it
    /// has more than `max_bytes` bytes.
    async fn read(&self, account: AccountId, id: &str, max_bytes: u64) -> FileResult;
}

/// A [`FileSource`] without files, for a gateway that accepts no uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

#[async_trait]
impl FileSource for NoFiles {
    async fn read(&self, _: AccountId, _: &str, _: u64) -> FileResult {
        Err(FileError::NotFound)
    }
}
