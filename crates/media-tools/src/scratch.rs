//! Temporary folders. A process removes the folders that dead processes have left.

use std::fs::{DirEntry, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Result;

/// Prefix of the folder names.
const PREFIX: &str = "tollgate-media-tools-";
/// Name of the lock file in each folder. The operating system releases the lock whenever the
/// process ends. No process ids are compared, so processes in separate PID namespaces can share a
/// temporary directory.
const OWNER: &str = "owner";
/// Name of the working folder next to the lock file.
const FILES: &str = "files";

/// A temporary folder. It is removed with its content on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: TempDir,
    /// Lock file of the folder, which is closed after the folder is removed.
    _owner: File,
}

impl Scratch {
    /// Creates a folder in the system's temporary directory.
    pub fn make() -> Result<Self> {
        Self::make_in(&std::env::temp_dir())
    }

    fn make_in(place: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let path = folder.path().join(FILES);
        std::fs::create_dir(&path)?;
        let mut owner = File::create_new(folder.path().join(OWNER))?;
        owner.lock()?;
        // Other processes do not treat an empty lock file as abandoned.
        writeln!(owner, "{}", std::process::id())?;
        Ok(Self {
            path,
            folder,
            _owner: owner,
        })
    }

    /// Returns the path of the working folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file with this name in the working folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(FILES).join(name)
    }
}

/// Removes the folders of dead processes and returns their number. Folders that this process cannot
/// open or remove are skipped.
pub fn remove_abandoned() -> Result<usize> {
    remove_abandoned_in(&std::env::temp_dir())
}

fn remove_abandoned_in(place: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(place)?.filter_map(std::io::Result::ok) {
        let Some(_owner) = left(&entry) else {
            continue;
        };
        match std::fs::remove_dir_all(entry.path()) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "cannot remove an abandoned scratch folder"),
        }
    }
    Ok(removed)
}

/// Returns the locked lock file of a folder whose process died; `None` for other folders.
fn left(entry: &DirEntry) -> Option<File> {
    let is_ours = entry.file_name().to_str()?.starts_with(PREFIX) && entry.file_type().ok()?.is_dir();
    let owner = File::open(entry.path().join(OWNER)).ok().filter(|_| is_ours)?;
    owner.try_lock().ok()?;
    (owner.metadata().ok()?.len() > 0).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves a folder in the state after its process was killed.
    fn abandoned(place: &Path) -> PathBuf {
        let scratch = Scratch::make_in(place).unwrap();
        std::fs::write(scratch.file("made.mp4"), "half a video").unwrap();
        scratch.folder.keep()
    }

    #[test]
    fn only_folders_of_dead_processes_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let living = Scratch::make_in(place.path()).unwrap();
        std::fs::write(living.file("made.mp4"), "half a video").unwrap();
        let dead = abandoned(place.path());
        let locked = abandoned(place.path());
        let lock = File::open(locked.join(OWNER)).unwrap();
        lock.lock().unwrap();
        // An empty lock file belongs to a process that has not locked it yet.
        let started = place.path().join("tollgate-media-tools-started");
        std::fs::create_dir(&started).unwrap();
        std::fs::write(started.join(OWNER), "").unwrap();
        let foreign = place.path().join("another-program");
        std::fs::rename(abandoned(place.path()), &foreign).unwrap();

        assert_eq!(remove_abandoned_in(place.path()).unwrap(), 1);
        assert!(!dead.exists());
        for stays in [living.path(), &locked, &started, &foreign] {
            assert!(stays.exists(), "{}", stays.display());
        }
        assert!(living.file("made.mp4").exists());
        drop(lock);
        assert_eq!(remove_abandoned_in(place.path()).unwrap(), 1);
        assert!(!locked.exists());
    }

    #[test]
    fn folders_are_removed_with_their_owner() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::make_in(place.path()).unwrap();
        assert!(scratch.path().is_dir());
        drop(scratch);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
