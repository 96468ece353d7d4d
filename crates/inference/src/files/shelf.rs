//! Where files are: a row and an object for each. The row is begun before the object, so that nothing lies around that no row
//! knows, whenever the process dies.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tollgate_storage::blob::{self, BlobContent};
use tollgate_storage::{
    BlobKey, BlobStore, FileError, FileFilter, FilePurpose, FileResult, FileSource, FileStore, FileUse,
    KeptFile, Limits, StorageError, StorageErrorKind, StoredFile,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, FileId, Timestamp};

use super::kind::{Look, Seen};
use crate::responses::kept::unavailable;

/// How long an upload may take; what is left of one that nobody goes on with is deleted after that.
const LONGEST_UPLOAD: Duration = Duration::from_hours(7 * 24);
/// Pieces that wait until they are written.
const WAITING: usize = 4;
/// How many files one look for what is left over deletes.
const BATCH: u32 = 100;

/// Keeps files of accounts.
pub struct Files {
    /// What is known of them.
    pub store: Arc<dyn FileStore>,
    /// Their bytes.
    pub blobs: Arc<dyn BlobStore>,
    /// What an account may keep that has no limits of its own.
    pub most: FileUse,
    /// Makes their ids.
    pub ids: Arc<IdSource>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Bytes that are kept and belong to no file yet.
pub(super) struct Loose {
    id: FileId,
    blob: BlobKey,
    pub(super) bytes: u64,
    pub(super) seen: Seen,
}

/// What is said of a file.
pub(crate) struct Label {
    pub(crate) filename: String,
    pub(crate) purpose: FilePurpose,
    pub(crate) expires_after: Option<Duration>,
}

/// Where the pieces of a file come from.
pub(crate) trait Pieces {
    /// The next one; nothing at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;
}

impl Files {
    /// A file of an account. `param` is where the caller has named it.
    pub(crate) async fn get(&self, account: AccountId, id: &str, param: &str) -> Result<KeptFile, Error> {
        let Ok(id) = id.parse::<FileId>() else {
            return Err(not_found(param));
        };
        self.find(account, id).await?.ok_or_else(|| not_found(param))
    }

    /// A file of an account, if it has one with this id.
    pub(crate) async fn find(&self, account: AccountId, id: FileId) -> Result<Option<KeptFile>, Error> {
        let found = self.store.get(account, id, self.clock.now()).await;
        found.map_err(|error| unavailable(&error))
    }

    /// Files of an account.
    pub(super) async fn list(
        &self,
        account: AccountId,
        filter: FileFilter,
        limit: u32,
    ) -> Result<Vec<KeptFile>, Error> {
        let listed = self.store.list(account, filter, self.clock.now(), limit).await;
        listed.map_err(|error| unavailable(&error))
    }

    /// The bytes of a file, or some of them.
    pub(crate) async fn open(
        &self,
        file: &KeptFile,
        range: Option<Range<u64>>,
    ) -> Result<BlobContent, Error> {
        let found = self.blobs.get(file.blob(), range).await;
        let found = found.map_err(|error| unavailable(&error))?;
        Ok(found.ok_or_else(|| not_found("file_id"))?.content)
    }

    /// What an account with these limits may keep.
    pub(super) fn most(&self, limits: &Limits) -> FileUse {
        let gib = |gib: u32| u64::from(gib) << 30;
        FileUse {
            files: limits.files.map_or(self.most.files, u64::from),
            bytes: limits.files_gib.map_or(self.most.bytes, gib),
        }
    }

    /// Refuses what certainly has no room. A file may be smaller than the form that it is in, so only what is there is counted.
    pub(super) async fn check_room(&self, account: AccountId, most: FileUse) -> Result<(), Error> {
        let used = self.store.used(account, self.clock.now()).await;
        let used = used.map_err(|error| unavailable(&error))?;
        match used.files >= most.files || used.bytes >= most.bytes {
            true => Err(no_room(most)),
            false => Ok(()),
        }
    }

    /// Keeps bytes as they come, at most so many.
    pub(super) async fn receive(
        &self,
        account: AccountId,
        pieces: &mut (impl Pieces + Send),
        declared: Option<&str>,
        most: u64,
    ) -> Result<Loose, Error> {
        let id = self.next_id();
        self.receive_as(account, id, pieces, declared, most).await
    }

    /// The id of a file that is about to be kept.
    pub(crate) fn next_id(&self) -> FileId {
        FileId::from_u128(self.ids.next(self.clock.now()))
    }

    /// Keeps a file of the gateway's own making under this id. Room is not asked for: it is what was paid for.
    pub(crate) async fn make(
        &self,
        account: AccountId,
        id: FileId,
        pieces: &mut (impl Pieces + Send),
        label: Label,
    ) -> Result<KeptFile, Error> {
        let loose = self.receive_as(account, id, pieces, None, u64::MAX).await?;
        let most = FileUse {
            files: u64::MAX,
            bytes: u64::MAX,
        };
        self.label(loose, label, most).await
    }

    async fn receive_as(
        &self,
        account: AccountId,
        id: FileId,
        pieces: &mut (impl Pieces + Send),
        declared: Option<&str>,
        most: u64,
    ) -> Result<Loose, Error> {
        let now = self.clock.now();
        let mut object = [0; 16];
        getrandom::fill(&mut object).map_err(|error| Error::internal(error.to_string()))?;
        let blob = BlobKey {
            account,
            object: u128::from_ne_bytes(object),
        };
        let begun = self.store.begin(blob, id, now, now.plus(LONGEST_UPLOAD)).await;
        begun.map_err(|error| unavailable(&error))?;
        match self.write(blob, pieces, most).await {
            Ok((bytes, look)) => Ok(Loose {
                id,
                blob,
                bytes,
                seen: look.end(declared),
            }),
            Err(error) => {
                self.drop_blob(id, blob).await;
                Err(error)
            }
        }
    }

    /// Hands pieces on to where they are kept. Nothing is kept of what does not come to its end.
    async fn write(
        &self,
        blob: BlobKey,
        pieces: &mut (impl Pieces + Send),
        most: u64,
    ) -> Result<(u64, Look), Error> {
        let (send, receive) = mpsc::channel::<Result<Bytes, StorageError>>(WAITING);
        let content = stream::unfold(receive, async |mut receive| {
            receive.recv().await.map(|piece| (piece, receive))
        });
        let read = async move {
            let mut look = Look::new();
            let fault = loop {
                match pieces.next().await {
                    Ok(Some(piece)) => {
                        look.at(&piece);
                        if look.bytes() > most {
                            break too_large(most);
                        }
                        // Whoever does not listen any more says why.
                        if send.send(Ok(piece)).await.is_err() {
                            return Ok(look);
                        }
                    }
                    Ok(None) => return Ok(look),
                    Err(error) => break error,
                }
            };
            let broken_off = StorageError::new(StorageErrorKind::Conflict, "the content was broken off");
            let _ = send.send(Err(broken_off)).await;
            Err(fault)
        };
        let (look, written) = tokio::join!(read, self.blobs.put(blob, Box::pin(content), most));
        let look = look?;
        let written = written.map_err(|error| unavailable(&error))?;
        Ok((written, look))
    }

    /// Makes a file of bytes that are kept. They are deleted when there is no room for them.
    pub(super) async fn label(&self, loose: Loose, label: Label, most: FileUse) -> Result<KeptFile, Error> {
        let (id, blob, now) = (loose.id, loose.blob, self.clock.now());
        let file = KeptFile {
            id,
            account: blob.account,
            object: blob.object,
            sha256: loose.seen.sha256,
            bytes: loose.bytes,
            filename: label.filename,
            media_type: loose.seen.media_type,
            purpose: label.purpose,
            lines: (label.purpose == FilePurpose::Batch).then_some(loose.seen.lines),
            created_at: now,
            expires_at: label.expires_after.map(|after| now.plus(after)),
        };
        match self.store.insert(file.clone(), most).await {
            Ok(true) => Ok(file),
            Ok(false) => {
                self.drop_blob(id, blob).await;
                Err(no_room(most))
            }
            Err(error) => {
                self.drop_blob(id, blob).await;
                Err(unavailable(&error))
            }
        }
    }

    /// Deletes bytes that become no file.
    pub(super) async fn discard(&self, loose: Loose) {
        self.drop_blob(loose.id, loose.blob).await;
    }

    /// Deletes a file; whether there was one.
    pub(crate) async fn delete(&self, account: AccountId, id: FileId) -> Result<bool, Error> {
        let deleted = self.store.delete(account, id, self.clock.now()).await;
        deleted.map_err(|error| unavailable(&error))
    }

    /// What cannot be deleted now is, when the time of its upload is over.
    async fn drop_blob(&self, id: FileId, blob: BlobKey) {
        let gone = async {
            let now = self.clock.now();
            self.store.give_up(blob.account, id, now).await?;
            self.remove(id, blob, now).await
        };
        if let Err(error) = gone.await {
            tracing::warn!(file.id = %id, %error, "a file that is not needed is deleted later");
        }
    }

    /// Deletes the bytes of files that are not there any more. Bytes go first and are forgotten afterwards: what ends in between
    /// is deleted again.
    pub async fn sweep(&self) -> tollgate_storage::Result<()> {
        loop {
            let now = self.clock.now();
            let leftover = self.store.leftover(now, BATCH).await?;
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
    async fn read(&self, account: AccountId, id: &str, most_bytes: u64) -> FileResult {
        let id = id.parse().map_err(|_| FileError::NotFound)?;
        let found = self.store.get(account, id, self.clock.now()).await;
        let file = found.map_err(FileError::Storage)?.ok_or(FileError::NotFound)?;
        if file.bytes > most_bytes {
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

fn no_room(most: FileUse) -> Error {
    let message = format!(
        "The account may keep {} files of {} GiB together, and has no room for another one. Delete files that are not \
         needed any more.",
        most.files,
        most.bytes >> 30
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param("file")
}

fn not_found(param: &str) -> Error {
    let message = "There is no such file. GET /v1/files lists those of the account.";
    Error::new(ErrorCode::NotFound, message).with_param(param)
}

pub(super) fn too_large(most: u64) -> Error {
    let message = format!("The file is larger than the {} MiB that it may have.", most >> 20);
    Error::new(ErrorCode::RequestTooLarge, message).with_param("file")
}
