//! The clock of one process, which is set while it runs (libfaketime). Its monotonic clock goes on.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use this: what goes wrong here fails the test"
)]

use std::path::PathBuf;

use tempfile::TempDir;

/// A clock. Processes that are started with [`env`](Self::env) go by it.
#[derive(Debug)]
pub struct FakeClock {
    preload: PathBuf,
    folder: TempDir,
}

impl FakeClock {
    /// A clock that is right; none where Debian's package `libfaketime` is not installed.
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

    /// What a process needs in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let (preload, file) = (
            self.preload.display().to_string(),
            self.file().display().to_string(),
        );
        [
            ("LD_PRELOAD", preload.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            // How long what the file said is remembered, in seconds.
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Sets it this many seconds ahead of the machine's, or behind.
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
