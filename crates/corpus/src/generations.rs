//! The folders of a corpus' indexes.
//!
//! A complete index is in the folder `index-NUMBER`; the greatest number is the newest. An index is
//! built in `unfinished-NUMBER` and renamed, so a crash leaves the indexes before it usable.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::CorpusError;
use crate::snapshot::Snapshot;

const INDEX: &str = "index-";
const UNFINISHED: &str = "unfinished-";
/// Attempts to open an index that another process may replace simultaneously.
const MAX_ATTEMPTS: usize = 3;

/// The folder with the indexes of a corpus.
#[derive(Debug)]
pub(crate) struct Generations {
    folder: PathBuf,
}

/// Permission to build and to remove indexes. Dropping it ends the permission, as does the end of
/// the process.
#[derive(Debug)]
pub(crate) struct BuildLock {
    _file: File,
}

impl Generations {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the newest usable index. A damaged or outdated one is logged and left out.
    pub fn open_newest(&self, prefix: &str) -> Result<Option<(u64, Snapshot)>, CorpusError> {
        for attempt in 1..=MAX_ATTEMPTS {
            let mut has_vanished = false;
            for (number, folder) in self.list(INDEX)?.into_iter().rev() {
                match Snapshot::open(&folder, prefix) {
                    Ok(snapshot) => return Ok(Some((number, snapshot))),
                    Err(_) if !folder.exists() => has_vanished = true,
                    Err(error) => {
                        tracing::warn!(%error, folder = %folder.display(), "cannot use an index");
                    }
                }
            }
            if !has_vanished || attempt == MAX_ATTEMPTS {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the folder of the index with this number.
    pub fn folder_of(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{INDEX}{number}"))
    }

    /// Takes the lock. Returns [`CorpusError::Busy`] while another build holds it.
    pub fn lock(&self) -> Result<BuildLock, CorpusError> {
        let path = self.folder.join("lock");
        std::fs::create_dir_all(&self.folder).map_err(CorpusError::io(&self.folder))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(CorpusError::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(BuildLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(CorpusError::Busy),
            Err(TryLockError::Error(error)) => Err(CorpusError::io(&path)(error)),
        }
    }

    /// Removes the folders of builds that did not complete, and creates one for the next build.
    pub fn start(&self, _: &BuildLock) -> Result<(u64, PathBuf), CorpusError> {
        for (_, folder) in self.list(UNFINISHED)? {
            std::fs::remove_dir_all(&folder).map_err(CorpusError::io(&folder))?;
        }
        let newest = self.list(INDEX)?.last().map_or(0, |(number, _)| *number);
        let number = newest.saturating_add(1);
        let folder = self.folder.join(format!("{UNFINISHED}{number}"));
        std::fs::create_dir(&folder).map_err(CorpusError::io(&folder))?;
        Ok((number, folder))
    }

    /// Makes a complete build the newest index.
    pub fn finish(&self, _: &BuildLock, number: u64, folder: &Path) -> Result<(), CorpusError> {
        let rename = || {
            std::fs::rename(folder, self.folder_of(number))?;
            // Without the sync, a power failure could undo the rename.
            File::open(&self.folder)?.sync_all()
        };
        rename().map_err(CorpusError::io(folder))
    }

    /// Removes the indexes before the newest one. Readers have mapped their files and continue.
    pub fn remove_older(&self, _: &BuildLock, newest: u64) {
        let Ok(folders) = self.list(INDEX) else {
            return;
        };
        for (_, folder) in folders.into_iter().filter(|(number, _)| *number < newest) {
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                tracing::warn!(%error, folder = %folder.display(), "cannot remove an old index");
            }
        }
    }

    /// Returns the folders with this prefix, by number.
    fn list(&self, prefix: &str) -> Result<Vec<(u64, PathBuf)>, CorpusError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(CorpusError::io(&self.folder))?,
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(CorpusError::io(&self.folder))?;
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok());
            if let Some(number) = number {
                folders.push((number, entry.path()));
            }
        }
        folders.sort_unstable();
        Ok(folders)
    }
}
