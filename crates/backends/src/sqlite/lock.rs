//! Lock file that restricts a data directory to one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::journal::unavailable;

pub(super) const LOCK_FILE: &str = "tollgate.lock";

/// Exclusive file lock on a data directory. The lock ends with [`DirectoryLock::release`], when the
/// value is dropped, or when the process ends.
pub(super) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Locks the directory. Returns `Unavailable` if another process holds the lock or the lock
    /// file cannot be written.
    pub(super) fn take(dir: &Path) -> Result<DirectoryLock> {
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(dir, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
        let note_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        note_pid(&mut file).map_err(unavailable)?;
        Ok(DirectoryLock { file })
    }

    /// Unlocks the directory. Logs a failure.
    pub(super) fn release(&self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot unlock the data directory");
        }
    }
}

/// Returns the id of the process that last locked the directory; `None` if the lock file is missing
/// or empty.
pub(super) fn holder(dir: &Path) -> Option<String> {
    let pid = std::fs::read_to_string(dir.join(LOCK_FILE)).ok()?;
    (!pid.is_empty()).then_some(pid)
}

fn taken(dir: &Path, file: &mut File) -> StorageError {
    let mut pid = String::new();
    let known = file.read_to_string(&mut pid).is_ok() && !pid.is_empty();
    let owner = if known {
        format!("another tollgate process (pid {pid})")
    } else {
        "another tollgate process".to_owned()
    };
    let dir = dir.display();
    let text = format!(
        "{owner} is using the data directory {dir}: stop that process, or use another \
         directory (--data DIR). Commands work while the server runs, through its socket"
    );
    StorageError::new(StorageErrorKind::Unavailable, text)
}
