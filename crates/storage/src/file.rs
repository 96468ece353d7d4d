//! Files of accounts: a row for each, whose bytes are in a [`crate::BlobStore`], and what a request gets that names one by
//! its id.

use async_trait::async_trait;
use tollgate_types::{AccountId, FileId, Timestamp};

use crate::{BlobKey, Result, StorageError};

/// What a file is for, as whoever has made it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePurpose {
    /// Documents of assistants.
    Assistants,
    /// Requests of a batch, one on each line.
    Batch,
    /// Examples to train with.
    FineTune,
    /// Pictures to look at.
    Vision,
    /// Anything that requests name.
    UserData,
    /// What evaluations go through.
    Evals,
    /// What came of a batch. Nobody uploads one.
    BatchOutput,
}

impl FilePurpose {
    /// All of them.
    pub const ALL: [FilePurpose; 7] = [
        FilePurpose::Assistants,
        FilePurpose::Batch,
        FilePurpose::FineTune,
        FilePurpose::Vision,
        FilePurpose::UserData,
        FilePurpose::Evals,
        FilePurpose::BatchOutput,
    ];

    /// The name, for callers and in storage.
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

    /// The purpose with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == name)
    }
}

/// A file, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// Id. Later files have greater ones.
    pub id: FileId,
    /// Owner.
    pub account: AccountId,
    /// Its bytes are under the key of the account and this.
    pub object: u128,
    /// Of its bytes.
    pub sha256: [u8; 32],
    /// How many there are.
    pub bytes: u64,
    /// Its name, as its sender called it.
    pub filename: String,
    /// What it is, in lower case and without parameters: as its bytes begin, not as its sender called it.
    pub media_type: String,
    /// What it is for.
    pub purpose: FilePurpose,
    /// How many lines it has that are not empty, where each is a request.
    pub lines: Option<u64>,
    /// When it was kept.
    pub created_at: Timestamp,
    /// From when on it is not there any more.
    pub expires_at: Option<Timestamp>,
}

impl KeptFile {
    /// Where its bytes are.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }
}

/// How much an account has kept, or may keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Files.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Which files are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    /// For this.
    pub purpose: Option<FilePurpose>,
    /// Behind this one, in the order of the list. It need not be there any more.
    pub after: Option<FileId>,
    /// The oldest first; else the newest.
    pub is_ascending: bool,
}

/// Stores what is known of files. One that was deleted or whose time is over is not there for whoever asks for it, but its
/// row stays until its bytes are known to be gone.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// Writes down that bytes are about to be kept there, so that they are found when their file is never written down: from
    /// `until` on they are left over. `NotFound` when the account does not exist, `Conflict` when the id is taken.
    async fn begin(&self, blob: BlobKey, id: FileId, now: Timestamp, until: Timestamp) -> Result<()>;

    /// What was begun comes to nothing: it is left over from now on. Whether there was something.
    async fn give_up(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Writes down a file whose bytes are kept already, if with it the account has no more than `most`; whether it has
    /// done so. `NotFound` when the account does not exist, `Conflict` when the id is taken by more than what was begun.
    async fn insert(&self, file: KeptFile, most: FileUse) -> Result<bool>;

    /// The file with this id, if it is this account's and is there.
    async fn get(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<Option<KeptFile>>;

    /// Files of an account that are there, at most `limit`.
    async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<KeptFile>>;

    /// How much an account has kept.
    async fn used(&self, account: AccountId, now: Timestamp) -> Result<FileUse>;

    /// From now on the file is not there; whether it was.
    async fn delete(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;

    /// Files that are not there any more and whose bytes are not known to be gone, at most so many.
    async fn leftover(&self, now: Timestamp, limit: u32) -> Result<Vec<(FileId, BlobKey)>>;

    /// Forgets a file that is not there any more and whose bytes are gone; whether there was one.
    async fn forget(&self, account: AccountId, id: FileId, now: Timestamp) -> Result<bool>;
}

/// A file as a request gets it that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// All of it.
    pub bytes: Vec<u8>,
    /// What it is, in lower case and without parameters: as its bytes begin, not as its sender called it.
    pub media_type: String,
    /// Its name.
    pub filename: String,
}

/// Why there is nothing to hand out.
#[derive(Debug)]
pub enum FileError {
    /// The account has no file with this id. Another account's file is not there.
    NotFound,
    /// There is more of it than was asked for.
    TooLarge,
    /// Storage failed.
    Storage(StorageError),
}

/// A file, or why there is none.
pub type FileResult = std::result::Result<StoredFile, FileError>;

/// Reads files by the ids that requests name.
#[async_trait]
pub trait FileSource: Send + Sync {
    /// The file of this account with this id, as its owner wrote it, unless it has more than `most_bytes`.
    async fn read(&self, account: AccountId, id: &str, most_bytes: u64) -> FileResult;
}

/// Where nothing can be uploaded: it has no file of anybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

#[async_trait]
impl FileSource for NoFiles {
    async fn read(&self, _: AccountId, _: &str, _: u64) -> FileResult {
        Err(FileError::NotFound)
    }
}
