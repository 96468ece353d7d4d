//! Stores files as a database row and a blob each. The row is created before the blob, so every
//! blob has a row even if the process dies during an upload.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tollgate_accounts::Vault;
use tollgate_storage::blob::{self, BlobContent};
use tollgate_storage::{
    BlobKey, BlobStore, FileError, FileFilter, FilePurpose, FileRecord, FileResult, FileSource, FileStore,
    FileUse, Limits, StorageError, StorageErrorKind, StoredFile,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, FileId, Timestamp};

use super::kind::{FileFacts, FileInspector};
use crate::responses::store::unavailable;

/// Maximum duration of an upload. After it the sweep deletes the remains of an unfinished upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_hours(7 * 24);
/// Maximum number of chunks that are queued for the blob store.
const MAX_PENDING_CHUNKS: usize = 4;
/// Prefix of a sealed (encrypted) file name in the database.
const SEALED_NAME_PREFIX: &str = "sealed:";
/// Maximum number of leftover blobs that one query returns.
const SWEEP_BATCH_SIZE: u32 = 100;

/// Stores, lists and deletes the files of accounts.
pub struct Files {
    /// Database rows of the files.
    pub store: Arc<dyn FileStore>,
    /// Encrypts file names.
    pub vault: Vault,
    /// Blob store for the content.
    pub blobs: Arc<dyn BlobStore>,
    /// Default quota of an account without its own limits.
    pub limit: FileUse,
    /// Source of time-ordered file ids.
    pub ids: Arc<IdSource>,
    /// Clock for creation and expiry times.
    pub clock: Arc<dyn Clock>,
}

/// A stored blob that does not belong to a file yet.
pub(super) struct UnclaimedBlob {
    id: FileId,
    blob: BlobKey,
    pub(super) bytes: u64,
    pub(super) facts: FileFacts,
}

/// Metadata of a file that its bytes do not contain.
pub(crate) struct Label {
    pub(crate) filename: String,
    pub(crate) purpose: FilePurpose,
    pub(crate) expires_after: Option<Duration>,
}

/// Source of the content of a file, in chunks.
pub(crate) trait ChunkSource {
    /// Returns the next chunk; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;
}

impl Files {
    /// Returns a file of an account, or `not_found`. `param` is the request parameter that holds
    /// the id.
    pub(crate) async fn get(&self, account: AccountId, id: &str, param: &str) -> Result<FileRecord, Error> {
        let Ok(id) = id.parse::<FileId>() else {
            return Err(not_found(param));
        };
        self.find(account, id).await?.ok_or_else(|| not_found(param))
    }

    /// Returns the file with this id if the account owns it.
    pub(crate) async fn find(&self, account: AccountId, id: FileId) -> Result<Option<FileRecord>, Error> {
        let found = self.store.get(account, id, self.clock.now()).await;
        let found = found.map_err(|error| unavailable(&error))?;
        Ok(found.map(|file| self.with_name(file)))
    }

    /// Decrypts the name of a file. Rows of earlier versions contain unencrypted names.
    fn with_name(&self, file: FileRecord) -> FileRecord {
        let sealed = file.filename.strip_prefix(SEALED_NAME_PREFIX);
        let sealed = sealed.and_then(|sealed| STANDARD_NO_PAD.decode(sealed).ok());
        let opened = sealed.and_then(|sealed| self.vault.open(file.account, file.id.as_u128(), &sealed));
        match opened.and_then(|name| String::from_utf8(name).ok()) {
            Some(filename) => FileRecord { filename, ..file },
            None => file,
        }
    }

    fn sealed_name(&self, account: AccountId, id: FileId, name: &str) -> Result<String, Error> {
        let sealed = self.vault.seal(account, id.as_u128(), name.as_bytes());
        let sealed = sealed.map_err(|error| Error::internal(error.to_string()))?;
        Ok(format!("{SEALED_NAME_PREFIX}{}", STANDARD_NO_PAD.encode(sealed)))
    }

    /// Lists the files of an account, at most `limit`.
    pub(super) async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        limit: u32,
    ) -> Result<Vec<FileRecord>, Error> {
        let listed = self.store.list(account, filter, self.clock.now(), limit).await;
        let listed = listed.map_err(|error| unavailable(&error))?;
        Ok(listed.into_iter().map(|file| self.with_name(file)).collect())
    }

    /// Opens the content of a file, or a byte range of it.
    pub(crate) async fn open(
        &self,
        file: &FileRecord,
        range: Option<Range<u64>>,
    ) -> Result<BlobContent, Error> {
        let found = self.blobs.get(file.blob(), range).await;
        let found = found.map_err(|error| unavailable(&error))?;
        Ok(found.ok_or_else(|| not_found("file_id"))?.content)
    }

    /// Returns the file quota of an account with these limits.
    pub(super) fn limit(&self, limits: &Limits) -> FileUse {
        let gib = |gib: u32| u64::from(gib) << 30;
        FileUse {
            files: limits.files.map_or(self.limit.files, u64::from),
            bytes: limits.files_gib.map_or(self.limit.bytes, gib),
        }
    }

    /// Rejects an upload if the quota is already used up. The size of the new file is not known
    /// yet, so only existing files count.
    pub(super) async fn check_quota(&self, account: AccountId, limit: FileUse) -> Result<(), Error> {
        let used = self.store.used(account, self.clock.now()).await;
        let used = used.map_err(|error| unavailable(&error))?;
        match used.files >= limit.files || used.bytes >= limit.bytes {
            true => Err(quota_exceeded(limit)),
            false => Ok(()),
        }
    }

    /// Stores a stream of chunks of at most `limit` bytes in total.
    pub(super) async fn receive(
        &self,
        account: AccountId,
        chunks: &mut (impl ChunkSource + Send),
        declared: Option<&str>,
        limit: u64,
    ) -> Result<UnclaimedBlob, Error> {
        let id = self.next_id();
        self.receive_as(account, id, chunks, declared, limit).await
    }

    /// Generates the id of a new file.
    pub(crate) fn next_id(&self) -> FileId {
        FileId::from_u128(self.ids.next(self.clock.now()))
    }

    /// Stores a file that the gateway generates, under a given id. The quota does not apply,
    /// because the account has paid for the content.
    pub(crate) async fn make(
        &self,
        account: AccountId,
        id: FileId,
        chunks: &mut (impl ChunkSource + Send),
        label: Label,
    ) -> Result<FileRecord, Error> {
        let unclaimed = self.receive_as(account, id, chunks, None, u64::MAX).await?;
        let limit = FileUse {
            files: u64::MAX,
            bytes: u64::MAX,
        };
        self.label(unclaimed, label, limit).await
    }

    async fn receive_as(
        &self,
        account: AccountId,
        id: FileId,
        chunks: &mut (impl ChunkSource + Send),
        declared: Option<&str>,
        limit: u64,
    ) -> Result<UnclaimedBlob, Error> {
        let now = self.clock.now();
        let mut object = [0; 16];
        getrandom::fill(&mut object).map_err(|error| Error::internal(error.to_string()))?;
        let blob = BlobKey {
            account,
            object: u128::from_ne_bytes(object),
        };
        let started = self.store.begin(blob, id, now, now.plus(UPLOAD_TIMEOUT)).await;
        started.map_err(|error| unavailable(&error))?;
        match self.write(blob, chunks, limit).await {
            Ok((bytes, inspector)) => Ok(UnclaimedBlob {
                id,
                blob,
                bytes,
                facts: inspector.end(declared),
            }),
            Err(error) => {
                self.drop_blob(id, blob).await;
                Err(error)
            }
        }
    }

    /// Streams the chunks to the blob store and inspects them. An error of the source aborts the
    /// upload, and nothing is stored.
    async fn write(
        &self,
        blob: BlobKey,
        chunks: &mut (impl ChunkSource + Send),
        limit: u64,
    ) -> Result<(u64, FileInspector), Error> {
        let (send, receive) = mpsc::channel::<Result<Bytes, StorageError>>(MAX_PENDING_CHUNKS);
        let content = stream::unfold(receive, async |mut receive| {
            receive.recv().await.map(|chunk| (chunk, receive))
        });
        let read = async move {
            let mut inspector = FileInspector::new();
            let fault = loop {
                match chunks.next().await {
                    Ok(Some(chunk)) => {
                        inspector.at(&chunk);
                        if inspector.bytes() > limit {
                            break too_large(limit);
                        }
                        // The receiver closes only when `put` has failed, and `put` returns the
                        // reason.
                        if send.send(Ok(chunk)).await.is_err() {
                            return Ok(inspector);
                        }
                    }
                    Ok(None) => return Ok(inspector),
                    Err(error) => break error,
                }
            };
            let aborted = StorageError::new(StorageErrorKind::Conflict, "the source of the content failed");
            let _ = send.send(Err(aborted)).await;
            Err(fault)
        };
        let (inspector, written) = tokio::join!(read, self.blobs.put(blob, Box::pin(content), limit));
        let inspector = inspector?;
        let written = written.map_err(|error| unavailable(&error))?;
        Ok((written, inspector))
    }

    /// Records a stored blob as a file. Deletes the blob if the quota is exceeded.
    pub(super) async fn label(
        &self,
        unclaimed: UnclaimedBlob,
        label: Label,
        limit: FileUse,
    ) -> Result<FileRecord, Error> {
        let (id, blob, now) = (unclaimed.id, unclaimed.blob, self.clock.now());
        let file = FileRecord {
            id,
            account: blob.account,
            object: blob.object,
            sha256: unclaimed.facts.sha256,
            bytes: unclaimed.bytes,
            filename: label.filename,
            media_type: unclaimed.facts.media_type,
            purpose: label.purpose,
            lines: (label.purpose == FilePurpose::Batch).then_some(unclaimed.facts.lines),
            created_at: now,
            expires_at: label.expires_after.map(|after| now.plus(after)),
        };
        let sealed = FileRecord {
            filename: self.sealed_name(file.account, id, &file.filename)?,
            ..file.clone()
        };
        match self.store.insert(sealed, limit).await {
            Ok(true) => Ok(file),
            Ok(false) => {
                self.drop_blob(id, blob).await;
                Err(quota_exceeded(limit))
            }
            Err(error) => {
                self.drop_blob(id, blob).await;
                Err(unavailable(&error))
            }
        }
    }

    /// Deletes a blob that will not become a file.
    pub(super) async fn discard(&self, unclaimed: UnclaimedBlob) {
        self.drop_blob(unclaimed.id, unclaimed.blob).await;
    }

    /// Deletes a file and returns whether it existed.
    pub(crate) async fn delete(&self, account: AccountId, id: FileId) -> Result<bool, Error> {
        let deleted = self.store.delete(account, id, self.clock.now()).await;
        deleted.map_err(|error| unavailable(&error))
    }

    /// Deletes a blob and its row. If that fails, the sweep deletes them later, at the latest after
    /// `UPLOAD_TIMEOUT`.
    async fn drop_blob(&self, id: FileId, blob: BlobKey) {
        let gone = async {
            let now = self.clock.now();
            self.store.abandon_upload(blob.account, id, now).await?;
            self.remove(id, blob, now).await
        };
        if let Err(error) = gone.await {
            tracing::warn!(file.id = %id, %error, "cannot delete an unused file; the sweep will retry");
        }
    }

    /// Deletes the blobs of deleted, expired and abandoned files. The blob is deleted before its
    /// row, so an interrupted sweep is repeated safely.
    pub async fn sweep(&self) -> tollgate_storage::Result<()> {
        loop {
            let now = self.clock.now();
            let leftover = self.store.leftover(now, SWEEP_BATCH_SIZE).await?;
            if leftover.is_empty() {
                return Ok(());
            }
            for (id, blob) in leftover {
                self.remove(id, blob, now).await?;
            }
        }
    }

    async fn remove(&self, id: FileId, blob: BlobKey, now: Timestamp) -> tollgate_storage::Result<()> {
        self.blobs.delete(blob).await?;
        self.store.forget(blob.account, id, now).await?;
        Ok(())
    }
}

#[async_trait]
impl FileSource for Files {
    async fn read(&self, account: AccountId, id: &str, max_bytes: u64) -> FileResult {
        let id = id.parse().map_err(|_| FileError::NotFound)?;
        let found = self.store.get(account, id, self.clock.now()).await;
        let file = found.map_err(FileError::Storage)?.ok_or(FileError::NotFound)?;
        let file = self.with_name(file);
        if file.bytes > max_bytes {
            return Err(FileError::TooLarge);
        }
        let found = self.blobs.get(file.blob(), None).await;
        let found = found.map_err(FileError::Storage)?.ok_or(FileError::NotFound)?;
        Ok(StoredFile {
            bytes: blob::collect(found.content).await.map_err(FileError::Storage)?,
            media_type: file.media_type,
            filename: file.filename,
        })
    }
}

fn quota_exceeded(limit: FileUse) -> Error {
    let message = format!(
        "The file quota of the account is exceeded: at most {} files of {} GiB in total. Delete files that are no \
         longer needed.",
        limit.files,
        limit.bytes >> 30
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param("file")
}

fn not_found(param: &str) -> Error {
    let message = "No such file. List the files of the account with GET /v1/files.";
    Error::new(ErrorCode::NotFound, message).with_param(param)
}

pub(super) fn too_large(limit: u64) -> Error {
    let message = format!("The file exceeds the maximum size of {} MiB.", limit >> 20);
    Error::new(ErrorCode::RequestTooLarge, message).with_param("file")
}
