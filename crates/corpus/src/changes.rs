//! Compares the files of a corpus with its index.

use crate::manifest::{FileState, Manifest};
use crate::scan::{Found, hash, read};

/// Result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// The index is current.
    None,
    /// The contents are the same, but times of files are not. The states are the new ones.
    Times(Vec<FileState>),
    /// A file was added, removed or changed.
    Files,
}

/// Compares by path, size and time. Files with other times are compared by their hash.
pub(crate) fn compare(manifest: &Manifest, found: &[Found]) -> Changes {
    let is_same = |(old, new): (&FileState, &Found)| old.path == new.relative && old.size == new.size;
    if manifest.files.len() != found.len() || !manifest.files.iter().zip(found).all(is_same) {
        return Changes::Files;
    }
    let mut states = manifest.files.clone();
    let mut has_new_times = false;
    for (state, file) in states.iter_mut().zip(found) {
        if state.modified_ns == file.modified_ns && !state.sha256.is_empty() {
            continue;
        }
        let hash = read(file).map(|content| hash(&content)).unwrap_or_default();
        if hash != state.sha256 {
            return Changes::Files;
        }
        has_new_times |= state.modified_ns != file.modified_ns;
        state.modified_ns = file.modified_ns;
    }
    match has_new_times {
        true => Changes::Times(states),
        false => Changes::None,
    }
}
