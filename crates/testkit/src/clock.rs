//! A settable clock for one process (libfaketime). The monotonic clock of the process is not
//! changed.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use this: an error here fails the test"
)]

use std::path::PathBuf;

use tempfile::TempDir;

/// A wall clock for the processes that start with [`env`](Self::env).
#[derive(Debug)]
pub struct FakeClock {
    preload: PathBuf,
    folder: TempDir,
}

impl FakeClock {
    /// Creates a clock without offset; `None` if Debian's package `libfaketime` is not installed.
    pub fn make() -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("tollgate-clock-")
            .tempdir()
            .unwrap();
        let clock = Self {
            preload: preload()?,
            folder,
        };
        clock.set(0);
        Some(clock)
    }

    /// Returns the environment variables of a process that uses this clock.
    pub fn env(&self) -> Vec<(String, String)> {
        let (preload, file) = (
            self.preload.display().to_string(),
            self.file().display().to_string(),
        );
        [
            ("LD_PRELOAD", preload.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            // Number of seconds for which libfaketime caches the content of the file.
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Sets the clock `ahead` seconds ahead of the machine's; negative values set it behind.
    pub fn set(&self, ahead: i64) {
        let beside = self.folder.path().join("new");
        std::fs::write(&beside, format!("{ahead:+}s\n")).unwrap();
        std::fs::rename(beside, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}

fn preload() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}
