//! One process at a time owns a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::journal::unavailable;

/// The right to use a data directory, until it is dropped or the process ends.
pub(super) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Takes the directory. `Unavailable` with advice when another process has it.
    pub(super) fn take(dir: &Path) -> Result<DirectoryLock> {
        let path = dir.join("tollgate.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
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

    /// Gives the directory back.
    pub(super) fn release(&self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot unlock the data directory");
        }
    }
}

/// The process that has the directory, or had it last.
pub(super) fn holder(dir: &Path) -> Option<String> {
    let pid = std::fs::read_to_string(dir.join("tollgate.lock")).ok()?;
    (!pid.is_empty()).then_some(pid)
}

fn taken(dir: &Path, file: &mut File) -> StorageError {
    let mut pid = String::new();
    let known = file.read_to_string(&mut pid).is_ok() && !pid.is_empty();
    let who = if known {
        format!("another tollgate process (pid {pid})")
    } else {
        "another tollgate process".to_owned()
    };
    let dir = dir.display();
    let text = format!(
        "{who} is using the data directory {dir}. One process owns it: stop the other one, or give this one a \
         directory of its own. The command line works beside a running server through its socket"
    );
    StorageError::new(StorageErrorKind::Unavailable, text)
}
