//! Tests specific to files: permissions, links, leftovers, a full disk.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_backends::local_files;
use tollgate_storage::blob::{collect, whole};
use tollgate_storage::conformance::{Blobs, BoxFuture};
use tollgate_storage::{BlobStore, StorageErrorKind};
use tollgate_testkit::disk::Disk;

use crate::{block_on, key};

/// Conformance suite of all blob stores.
mod conformance {
    tollgate_storage::blob_conformance_tests!(crate::files::run);
}

fn run(case: impl FnOnce(Blobs) -> BoxFuture<()>) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("media");
    let open = move || Arc::new(local_files::open(&root).unwrap()) as Arc<dyn BlobStore>;
    block_on(case(Blobs::new(open)));
    assert_eq!(unfinished(folder.path()), 0);
}

fn unfinished(folder: &Path) -> usize {
    fs::read_dir(folder.join("media/unfinished")).map_or(0, Iterator::count)
}

/// Returns the path of an object's file.
fn place(folder: &Path, object: u128) -> PathBuf {
    folder.join("media").join(key(object).to_string())
}

#[test]
fn files_are_private() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("media");
    block_on(async {
        let store = local_files::open(&root).unwrap();
        assert!(!root.exists(), "nothing is made before the first object");
        store.put(key(1), whole("text"), 9).await.unwrap();
    });
    let file = place(folder.path(), 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    for above in file.ancestors().skip(1).take(3) {
        assert_eq!(mode(above), 0o700, "{}", above.display());
    }
    assert_eq!(mode(&root), 0o700);
    assert_eq!(mode(&root.join("unfinished")), 0o700);
}

#[test]
fn symlinks_are_not_followed() {
    let folder = TempDir::new().unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let canary = outside.join(place(folder.path(), 2).file_name().unwrap());
    fs::write(&canary, "canary").unwrap();
    block_on(async {
        let store = local_files::open(folder.path().join("media")).unwrap();
        store.put(key(1), whole("text"), 9).await.unwrap();
        let file = place(folder.path(), 2);
        symlink(&canary, &file).unwrap();
        for result in [
            store.get(key(2), None).await.map(drop),
            store.length(key(2)).await.map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind, StorageErrorKind::Corrupt);
        }
        let put = store.put(key(2), whole("other"), 9).await;
        assert_eq!(put.unwrap_err().kind, StorageErrorKind::Conflict);

        let shard = file.parent().unwrap();
        fs::remove_dir_all(shard).unwrap();
        symlink(&outside, shard).unwrap();
        for result in [
            store.get(key(2), None).await.map(drop),
            store.put(key(3), whole("other"), 9).await.map(drop),
            store.delete(key(2)).await,
        ] {
            assert_eq!(result.unwrap_err().kind, StorageErrorKind::Corrupt);
        }
    });
    assert_eq!(fs::read_to_string(&canary).unwrap(), "canary");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

/// Opening removes the incomplete files of dead processes; those of a live process stay.
#[test]
fn leftovers_are_removed() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("media");
    let unfinished = root.join("unfinished");
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join("dead"), "half").unwrap();
    fs::write(unfinished.join("alive"), "half").unwrap();
    let alive = File::options()
        .write(true)
        .open(unfinished.join("alive"))
        .unwrap();
    alive.lock().unwrap();
    local_files::open(&root).unwrap();
    assert!(!unfinished.join("dead").exists());
    assert!(unfinished.join("alive").exists());
    drop(alive);
    local_files::open(&root).unwrap();
    assert!(!unfinished.join("alive").exists());
}

/// A full disk leaves no part of an object, and a smaller object can be stored afterwards.
#[test]
fn full_disk_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let disk = Disk::mount(folder.path());
    let Some(_disk) = disk else {
        return;
    };
    block_on(async {
        let store = local_files::open(folder.path().join("media")).unwrap();
        let put = store.put(key(1), whole(vec![7; 4 << 20]), u64::MAX).await;
        assert_eq!(put.unwrap_err().kind, StorageErrorKind::Unavailable);
        assert!(store.get(key(1), None).await.unwrap().is_none());
        assert_eq!(unfinished(folder.path()), 0);
        store.put(key(1), whole("text"), u64::MAX).await.unwrap();
        let read = store.get(key(1), None).await.unwrap().unwrap();
        assert_eq!(collect(read.content).await.unwrap(), b"text");
    });
}
