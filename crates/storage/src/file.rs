//! Uploaded files: metadata in a row for each, bytes in a [`crate::BlobStore`], and the reading of
//! files that a request references by id.

use async_trait::async_trait;
use tollgate_types::{AccountId, FileId, Timestamp};

use crate::{BlobKey, Result, StorageError};

/// Purpose of a file, as declared by its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePurpose {
    /// Documents for assistants.
    Assistants,
    /// Requests of a batch, one per line.
    Batch,
    /// Training examples for fine-tuning.
    FineTune,
    /// Images for vision input.
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

    /// Name used on the wire and in storage.
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

    /// Parses the name.
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
    /// Object number in the `BlobKey` of its bytes.
    pub object: u128,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub bytes: u64,
    /// File name as given by the sender.
    pub filename: String,
    /// Media type detected from the first bytes, in lower case and without parameters; the sender's
    /// claim is ignored.
    pub media_type: String,
    /// Declared purpose of the file.
    pub purpose: FilePurpose,
    /// Number of non-empty lines, for files with one request per line.
    pub lines: Option<u64>,
    /// Time when the file was stored.
    pub created_at: Timestamp,
    /// Time from which the file is hidden from its owner; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl FileRecord {
    /// Returns the key of its bytes.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }
}

/// Storage used by an account, or its quota.
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
    /// Only files after this one in the order of the list; it may have been deleted.
    pub after: Option<FileId>,
    /// Whether the oldest comes first instead of the newest.
    pub is_ascending: bool,
}

/// Stores metadata of files. A deleted or expired file is invisible, but its row stays until its
/// bytes are deleted.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// Records an upload before its bytes are written, so that they can be found if the upload
    /// never completes: from `until` on they are leftover. `NotFound` when the account does not
    /// exist, `Conflict` when the id is taken.
    async fn begin(&self, blob: BlobKey, id: FileId, now: Timestamp, until: Timestamp) -> Result<()>;

    /// Abandons an upload: its bytes are leftover from now on. Returns whether there was one.
    async fn abandon_upload(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Records a file whose bytes are stored, unless the account would then exceed `max`; returns
    /// whether it was recorded. `NotFound` when the account does not exist, `Conflict` when the id
    /// belongs to another file.
    async fn insert(&self, file: FileRecord, max: FileUse) -> Result<bool>;

    /// Returns the account's file with this id, if it is neither deleted nor expired.
    async fn get(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<Option<FileRecord>>;

    /// Lists files of an account that are neither deleted nor expired, at most `limit`.
    async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>>;

    /// Returns the storage that an account uses.
    async fn used(&self, account: AccountId, now: Timestamp) -> Result<FileUse>;

    /// Marks the file as deleted; returns whether it existed.
    async fn delete(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Returns deleted, expired or abandoned files whose bytes may still exist, at most `limit`.
    async fn leftover(&self, now: Timestamp, limit: u32) -> Result<Vec<(FileId, BlobKey)>>;

    /// Removes the row of such a file after its bytes were deleted; returns whether there was one.
    async fn forget(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;
}

/// Content of a file that a request references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The whole content.
    pub bytes: Vec<u8>,
    /// Media type detected from the first bytes, in lower case and without parameters; the sender's
    /// claim is ignored.
    pub media_type: String,
    /// File name as given by the sender.
    pub filename: String,
}

/// Reason why a file could not be read.
#[derive(Debug)]
pub enum FileError {
    /// The account has no file with this id. Files of other accounts are not found either.
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
    /// Reads the account's file with this id, as its owner uploaded it. `TooLarge` if it has more
    /// than `max_bytes`.
    async fn read(&self, account: AccountId, id: &str, max_bytes: u64) -> FileResult;
}

/// A source without files, for a gateway without uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

#[async_trait]
impl FileSource for NoFiles {
    async fn read(&self, _: AccountId, _: &str, _: u64) -> FileResult {
        Err(FileError::NotFound)
    }
}
