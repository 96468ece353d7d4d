//! A small disk that can be filled, and a disk whose `fsync` fails.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the file that fills the disk.
const FILLER: &str = "filler";

/// A tmpfs of a few megabytes. Dropping the value unmounts it.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts a disk of 1 MB at this folder; `None` if this user may not mount.
    pub fn mount(folder: &Path) -> Option<Self> {
        Self::mount_of(folder, 1)
    }

    /// Mounts a disk of this size at this folder; `None` if this user may not mount.
    pub fn mount_of(folder: &Path, megabytes: u32) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={megabytes}m,mode=700"))
            .arg("tmpfs")
            .arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_owned()))
    }

    /// Fills the disk.
    ///
    /// # Panics
    /// If writing fails for a reason other than a full disk.
    #[expect(clippy::expect_used, reason = "only tests use this")]
    pub fn fill(&self) {
        let filler = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.join(FILLER));
        let mut filler = filler.expect("a file can be created");
        while filler.write_all(&[7; 4096]).is_ok() {}
    }

    /// Deletes the filler, so that the disk has free space again.
    ///
    /// # Panics
    /// If the disk was not full.
    #[expect(clippy::expect_used, reason = "only tests use this")]
    pub fn clear(&self) {
        fs::remove_file(self.0.join(FILLER)).expect("the disk was full");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount succeeds while a process has files open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Source of a library that is preloaded into a process. Its `fsync` fails while the file in
/// `FAILING_SYNC_FILE` exists.
const FAILING_SYNC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int sync_of(const char *name, int fd) {
    const char *file = getenv("FAILING_SYNC_FILE");
    if (file && access(file, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) { return sync_of("fsync", fd); }
int fdatasync(int fd) { return sync_of("fdatasync", fd); }
"#;

/// Replacement of `fsync` that fails with an I/O error after [`fail`](Self::fail).
#[derive(Debug)]
pub struct FailingSync(tempfile::TempDir);

#[expect(clippy::expect_used, clippy::unwrap_used, reason = "only tests use this")]
impl FailingSync {
    /// Compiles the library. `fsync` works until [`fail`](Self::fail) is called.
    ///
    /// # Panics
    /// If no C compiler is installed.
    pub fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("sync.c");
        fs::write(&source, FAILING_SYNC).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]);
        compiler
            .arg(folder.path().join("sync.so"))
            .arg(&source)
            .arg("-ldl");
        let compiled = compiler.output().expect("a C compiler is installed");
        assert!(compiled.status.success(), "{compiled:?}");
        Self(folder)
    }

    /// Returns the environment variables that preload the library into a process.
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |name| self.0.path().join(name).display().to_string();
        vec![
            ("LD_PRELOAD".to_owned(), path("sync.so")),
            ("FAILING_SYNC_FILE".to_owned(), path("fails")),
        ]
    }

    /// Makes every `fsync` fail from now on.
    pub fn fail(&self) {
        fs::write(self.0.path().join("fails"), "").unwrap();
    }

    /// Makes `fsync` work again.
    pub fn mend(&self) {
        fs::remove_file(self.0.path().join("fails")).unwrap();
    }
}
