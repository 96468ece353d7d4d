//! [`BlobStore`] in a local directory.
//!
//! Incomplete objects are files with random names in the folder `unfinished`, locked by their
//! writers. An unlocked file in this folder belongs to a process that died.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::BytesMut;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tollgate_storage::blob::{clamp, too_large};
use tollgate_storage::{Blob, BlobContent, BlobKey, BlobStore, Result, StorageError, StorageErrorKind};

use crate::journal::unavailable;

/// Name of the folder with incomplete objects.
const UNFINISHED: &str = "unfinished";
/// Size of a read, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Object store in a directory. Only the user of this process can read its files.
#[derive(Clone, Debug)]
pub struct LocalFiles {
    root: PathBuf,
}

/// Opens a directory and removes the incomplete objects of dead processes. Creates no folder before
/// the first object is stored.
///
/// Returns `Unavailable` if the directory cannot be read.
pub fn open(root: impl Into<PathBuf>) -> Result<LocalFiles> {
    let root = root.into();
    remove_leftovers(&root.join(UNFINISHED)).map_err(unavailable)?;
    Ok(LocalFiles { root })
}

fn remove_leftovers(folder: &Path) -> std::io::Result<()> {
    let found = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    for entry in found {
        let path = entry?.path();
        // Another process may remove the file simultaneously.
        if let Ok(file) = no_follow(OpenOptions::new().write(true)).open(&path)
            && file.try_lock().is_ok()
        {
            remove(&path)?;
        }
    }
    Ok(())
}

#[async_trait]
impl BlobStore for LocalFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    async fn put(&self, key: BlobKey, mut content: BlobContent, max_bytes: u64) -> Result<u64> {
        let folder = self.root.join(UNFINISHED);
        let partial = blocking(move || begin(&folder)).await?;
        let mut file = tokio::fs::File::from_std(partial.file.try_clone().map_err(unavailable)?);
        let mut length = 0;
        while let Some(part) = content.next().await {
            let part = part?;
            length += part.len() as u64;
            if length > max_bytes {
                return Err(too_large(max_bytes));
            }
            file.write_all(&part).await.map_err(unavailable)?;
        }
        file.flush().await.map_err(unavailable)?;
        let object_path = self.object_path(key);
        blocking(move || finish(&partial, &object_path)).await?;
        Ok(length)
    }

    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>> {
        let object_path = self.object_path(key);
        let Some((file, length)) = blocking(move || find(&object_path)).await? else {
            return Ok(None);
        };
        let range = clamp(range, length);
        let mut file = tokio::fs::File::from_std(file);
        file.seek(SeekFrom::Start(range.start))
            .await
            .map_err(unavailable)?;
        let content = file.take(range.end - range.start);
        let content = stream::try_unfold(content, |mut content| async move {
            let left = usize::try_from(content.limit()).unwrap_or(CHUNK_BYTES);
            if left == 0 {
                return Ok(None);
            }
            let mut chunk = BytesMut::with_capacity(left.min(CHUNK_BYTES));
            match content.read_buf(&mut chunk).await.map_err(unavailable)? {
                0 => Err(corrupt("the object was truncated while it was read")),
                _ => Ok(Some((chunk.freeze(), content))),
            }
        });
        Ok(Some(Blob {
            length,
            range,
            content: Box::pin(content),
        }))
    }

    async fn length(&self, key: BlobKey) -> Result<Option<u64>> {
        let object_path = self.object_path(key);
        let found = blocking(move || find(&object_path)).await?;
        Ok(found.map(|(_, length)| length))
    }

    async fn delete(&self, key: BlobKey) -> Result<()> {
        let object_path = self.object_path(key);
        blocking(move || {
            if !object_path.is_folder()? {
                return Ok(());
            }
            remove(&object_path.file).map_err(unavailable)?;
            // Without the sync, a power failure could undo the deletion.
            sync(&object_path.folder).map_err(unavailable)
        })
        .await
    }
}

impl LocalFiles {
    fn object_path(&self, key: BlobKey) -> ObjectPath {
        let file = self.root.join(key.to_string());
        let above = |path: &Path| path.parent().unwrap_or(&self.root).to_owned();
        let folder = above(&file);
        ObjectPath {
            root: self.root.clone(),
            account: above(&folder),
            folder,
            file,
        }
    }
}

struct ObjectPath {
    root: PathBuf,
    account: PathBuf,
    folder: PathBuf,
    file: PathBuf,
}

impl ObjectPath {
    /// Whether the folder exists. Returns `Corrupt` if its path is something else, such as a link.
    fn is_folder(&self) -> Result<bool> {
        for folder in [&self.account, &self.folder] {
            match folder.symlink_metadata() {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(corrupt(format!("{} is not a folder", folder.display()))),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(unavailable(error)),
            }
        }
        Ok(true)
    }

    /// Creates the folder and syncs it to disk.
    fn create_folder(&self) -> Result<()> {
        for (folder, parent) in [(&self.account, &self.root), (&self.folder, &self.account)] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Ok(()) => sync(parent).map_err(unavailable)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        match self.is_folder()? {
            true => Ok(()),
            false => Err(unavailable(ErrorKind::NotFound.into())),
        }
    }
}

/// The file of an incomplete object. Dropping the value removes the file.
struct PartialFile {
    file: File,
    path: PathBuf,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, "cannot remove an unfinished object");
        }
    }
}

fn begin(folder: &Path) -> Result<PartialFile> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(unavailable)?;
    loop {
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(|error| unavailable(error.into()))?;
        let path = folder.join(format!("{:032x}", u128::from_ne_bytes(name)));
        let file = no_follow(OpenOptions::new().write(true).create_new(true).mode(0o600))
            .open(&path)
            .map_err(unavailable)?;
        let file = PartialFile { file, path };
        match file.file.try_lock() {
            // Between creation and lock, another process may have removed the file as a leftover.
            Ok(()) if file.file.metadata().map_err(unavailable)?.nlink() > 0 => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
    }
}

/// Publishes an object under its name with a hard link. A hard link fails if the name exists, while
/// a rename would overwrite the object.
fn finish(partial: &PartialFile, object_path: &ObjectPath) -> Result<()> {
    partial.file.sync_all().map_err(unavailable)?;
    object_path.create_folder()?;
    match std::fs::hard_link(&partial.path, &object_path.file) {
        Ok(()) => sync(&object_path.folder).map_err(unavailable),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(StorageError::new(StorageErrorKind::Conflict, error))
        }
        Err(error) => Err(unavailable(error)),
    }
}

/// Opens an object and returns the file and its length; `None` if it does not exist.
fn find(object_path: &ObjectPath) -> Result<Option<(File, u64)>> {
    if !object_path.is_folder()? {
        return Ok(None);
    }
    let file = match no_follow(OpenOptions::new().read(true)).open(&object_path.file) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(corrupt(format!("{} is a symlink", object_path.file.display())));
        }
        Err(error) => return Err(unavailable(error)),
    };
    let found = file.metadata().map_err(unavailable)?;
    match found.is_file() {
        true => Ok(Some((file, found.len()))),
        false => Err(corrupt(format!("{} is not a file", object_path.file.display()))),
    }
}

fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NOFOLLOW)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| unavailable(error.into()))?
}

fn corrupt(what: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, what.into())
}
