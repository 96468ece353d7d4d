//! [`BlobStore`] in a directory of this machine.
//!
//! What is not whole yet is in `unfinished`, under a name that says nothing, and its writer has it locked: what is there
//! and not locked was left by a process that died.

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

/// The folder of objects that are not whole.
const UNFINISHED: &str = "unfinished";
/// How much is read at once.
const PIECE: usize = 256 << 10;

/// Objects in files that nobody but this program's user can read.
#[derive(Clone, Debug)]
pub struct LocalFiles {
    root: PathBuf,
}

/// Opens a directory, and removes what processes that died had not finished. Nothing is made before the first object.
///
/// `Unavailable` when the directory cannot be read.
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
        // Another process may remove it meanwhile.
        if let Ok(file) = no_link(OpenOptions::new().write(true)).open(&path)
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

    async fn put(&self, key: BlobKey, mut content: BlobContent, most: u64) -> Result<u64> {
        let folder = self.root.join(UNFINISHED);
        let unfinished = blocking(move || begin(&folder)).await?;
        let mut file = tokio::fs::File::from_std(unfinished.file.try_clone().map_err(unavailable)?);
        let mut length = 0;
        while let Some(part) = content.next().await {
            let part = part?;
            length += part.len() as u64;
            if length > most {
                return Err(too_large(most));
            }
            file.write_all(&part).await.map_err(unavailable)?;
        }
        file.flush().await.map_err(unavailable)?;
        let place = self.place(key);
        blocking(move || finish(&unfinished, &place)).await?;
        Ok(length)
    }

    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>> {
        let place = self.place(key);
        let Some((file, length)) = blocking(move || find(&place)).await? else {
            return Ok(None);
        };
        let range = clamp(range, length);
        let mut file = tokio::fs::File::from_std(file);
        file.seek(SeekFrom::Start(range.start))
            .await
            .map_err(unavailable)?;
        let content = file.take(range.end - range.start);
        let content = stream::try_unfold(content, |mut content| async move {
            let left = usize::try_from(content.limit()).unwrap_or(PIECE);
            if left == 0 {
                return Ok(None);
            }
            let mut piece = BytesMut::with_capacity(left.min(PIECE));
            match content.read_buf(&mut piece).await.map_err(unavailable)? {
                0 => Err(corrupt("an object has become shorter")),
                _ => Ok(Some((piece.freeze(), content))),
            }
        });
        Ok(Some(Blob {
            length,
            range,
            content: Box::pin(content),
        }))
    }

    async fn length(&self, key: BlobKey) -> Result<Option<u64>> {
        let place = self.place(key);
        let found = blocking(move || find(&place)).await?;
        Ok(found.map(|(_, length)| length))
    }

    async fn delete(&self, key: BlobKey) -> Result<()> {
        let place = self.place(key);
        blocking(move || {
            if !place.is_folder()? {
                return Ok(());
            }
            remove(&place.file).map_err(unavailable)?;
            // What is noted as deleted must not come back with a power cut.
            sync(&place.folder).map_err(unavailable)
        })
        .await
    }
}

impl LocalFiles {
    fn place(&self, key: BlobKey) -> Place {
        let file = self.root.join(key.to_string());
        let above = |path: &Path| path.parent().unwrap_or(&self.root).to_owned();
        let folder = above(&file);
        Place {
            root: self.root.clone(),
            account: above(&folder),
            folder,
            file,
        }
    }
}

/// Where an object is.
struct Place {
    root: PathBuf,
    account: PathBuf,
    folder: PathBuf,
    file: PathBuf,
}

impl Place {
    /// Whether the folder is there; `Corrupt` when something else is, such as a link.
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

    /// Makes the folder, so that a power cut does not take it.
    fn make_folder(&self) -> Result<()> {
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

/// An object that is not whole. It is removed when it is dropped.
struct Unfinished {
    file: File,
    path: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, "cannot remove an unfinished object");
        }
    }
}

fn begin(folder: &Path) -> Result<Unfinished> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(unavailable)?;
    loop {
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(|error| unavailable(error.into()))?;
        let path = folder.join(format!("{:032x}", u128::from_ne_bytes(name)));
        let file = no_link(OpenOptions::new().write(true).create_new(true).mode(0o600))
            .open(&path)
            .map_err(unavailable)?;
        let file = Unfinished { file, path };
        match file.file.try_lock() {
            // One that is opening the directory may have taken it for a leftover just before.
            Ok(()) if file.file.metadata().map_err(unavailable)?.nlink() > 0 => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
    }
}

/// Gives an object its name, which nothing else may have: a link is refused where a rename would overwrite.
fn finish(unfinished: &Unfinished, place: &Place) -> Result<()> {
    unfinished.file.sync_all().map_err(unavailable)?;
    place.make_folder()?;
    match std::fs::hard_link(&unfinished.path, &place.file) {
        Ok(()) => sync(&place.folder).map_err(unavailable),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(StorageError::new(StorageErrorKind::Conflict, error))
        }
        Err(error) => Err(unavailable(error)),
    }
}

/// The object with its length; nothing when it is not there.
fn find(place: &Place) -> Result<Option<(File, u64)>> {
    if !place.is_folder()? {
        return Ok(None);
    }
    let file = match no_link(OpenOptions::new().read(true)).open(&place.file) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(corrupt(format!("{} is a link", place.file.display())));
        }
        Err(error) => return Err(unavailable(error)),
    };
    let found = file.metadata().map_err(unavailable)?;
    match found.is_file() {
        true => Ok(Some((file, found.len()))),
        false => Err(corrupt(format!("{} is not a file", place.file.display()))),
    }
}

fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
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
