//! What accounts have uploaded, as far as a request may name it by its id.

use async_trait::async_trait;
use tollgate_types::AccountId;

use crate::StorageError;

/// A file of an account.
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

/// Reads files by the ids that requests name.
#[async_trait]
pub trait FileSource: Send + Sync {
    /// The file of this account with this id, as its owner wrote it, unless it has more than `most_bytes`.
    async fn read(&self, account: AccountId, id: &str, most_bytes: u64) -> Result<StoredFile, FileError>;
}

/// Where nothing can be uploaded: it has no file of anybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

#[async_trait]
impl FileSource for NoFiles {
    async fn read(&self, _: AccountId, _: &str, _: u64) -> Result<StoredFile, FileError> {
        Err(FileError::NotFound)
    }
}
