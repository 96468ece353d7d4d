//! A disk that is soon full.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that takes what room there is.
const FILLER: &str = "filler";

/// A disk of one megabyte. It is taken away with the value.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Disk {
    /// Puts it where this folder is; nothing where this user may not mount one.
    pub fn mount(folder: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"])
            .arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_owned()))
    }

    /// Leaves no room on it.
    ///
    /// # Panics
    /// When it cannot be written to for another reason.
    #[expect(clippy::expect_used, reason = "only tests use this")]
    pub fn fill(&self) {
        let filler = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.join(FILLER));
        let mut filler = filler.expect("a file can be made");
        while filler.write_all(&[7; 4096]).is_ok() {}
    }

    /// There is room again.
    ///
    /// # Panics
    /// When it was not full.
    #[expect(clippy::expect_used, reason = "only tests use this")]
    pub fn clear(&self) {
        fs::remove_file(self.0.join(FILLER)).expect("it was full");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also while a process has something open there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
