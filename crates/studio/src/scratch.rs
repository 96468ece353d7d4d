//! Folders for files that are needed for a moment. What a process leaves behind that dies is removed by the next.

use std::fs::{DirEntry, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Result;

/// What their names begin with.
const PREFIX: &str = "tollgate-studio-";
/// The file in each of them that its process holds a lock on. The system takes it back when the process ends, however that
/// ends, so no id of a process is compared, and processes that do not see each other may share a folder of temporary files.
const OWNER: &str = "owner";
/// The folder beside it that is worked in.
const FILES: &str = "files";

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: TempDir,
    /// Closed after the folder was removed.
    _owner: File,
}

impl Scratch {
    /// A new folder where temporary files are kept.
    pub fn make() -> Result<Self> {
        Self::make_in(&std::env::temp_dir())
    }

    fn make_in(place: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let path = folder.path().join(FILES);
        std::fs::create_dir(&path)?;
        let mut owner = File::create_new(folder.path().join(OWNER))?;
        owner.lock()?;
        // As long as it is empty nobody takes it for one that is left.
        writeln!(owner, "{}", std::process::id())?;
        Ok(Self {
            path,
            folder,
            _owner: owner,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this name is, or would be.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(FILES).join(name)
    }
}

/// Removes the folders of processes that are not there any more, and says how many. Those of other users stay.
pub fn remove_left() -> Result<usize> {
    remove_left_in(&std::env::temp_dir())
}

fn remove_left_in(place: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(place)?.filter_map(std::io::Result::ok) {
        let Some(_owner) = left(&entry) else {
            continue;
        };
        match std::fs::remove_dir_all(entry.path()) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "cannot remove a folder that a process has left"),
        }
    }
    Ok(removed)
}

/// The lock of a folder whose process is not there any more.
fn left(entry: &DirEntry) -> Option<File> {
    let is_ours = entry.file_name().to_str()?.starts_with(PREFIX) && entry.file_type().ok()?.is_dir();
    let owner = File::open(entry.path().join(OWNER)).ok().filter(|_| is_ours)?;
    owner.try_lock().ok()?;
    (owner.metadata().ok()?.len() > 0).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a process that was killed.
    fn abandoned(place: &Path) -> PathBuf {
        let scratch = Scratch::make_in(place).unwrap();
        std::fs::write(scratch.file("made.mp4"), "half a film").unwrap();
        scratch.folder.keep()
    }

    #[test]
    fn what_the_dead_have_left_goes_and_what_the_living_have_stays() {
        let place = tempfile::tempdir().unwrap();
        let living = Scratch::make_in(place.path()).unwrap();
        std::fs::write(living.file("made.mp4"), "half a film").unwrap();
        let dead = abandoned(place.path());
        let locked = abandoned(place.path());
        let lock = File::open(locked.join(OWNER)).unwrap();
        lock.lock().unwrap();
        // Nobody knows yet whose it is.
        let begun = place.path().join("tollgate-studio-begun");
        std::fs::create_dir(&begun).unwrap();
        std::fs::write(begun.join(OWNER), "").unwrap();
        let foreign = place.path().join("another-program");
        std::fs::rename(abandoned(place.path()), &foreign).unwrap();

        assert_eq!(remove_left_in(place.path()).unwrap(), 1);
        assert!(!dead.exists());
        for stays in [living.path(), &locked, &begun, &foreign] {
            assert!(stays.exists(), "{}", stays.display());
        }
        assert!(living.file("made.mp4").exists());
        drop(lock);
        assert_eq!(remove_left_in(place.path()).unwrap(), 1);
        assert!(!locked.exists());
    }

    #[test]
    fn a_folder_goes_with_who_has_it() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::make_in(place.path()).unwrap();
        assert!(scratch.path().is_dir());
        drop(scratch);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
