//! Finds the files of a corpus.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::document::Format;
use crate::error::CorpusError;

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 20 << 20;

/// Files and documents that are not in the index, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Files larger than 20 MiB.
    pub too_large: u64,
    /// Files that are not UTF-8 text.
    pub binary: u64,
    /// Hidden files and folders. A hidden folder counts once.
    pub hidden: u64,
    /// Links to files outside the folder, to folders, and to missing files; special files.
    pub links: u64,
    /// Files of other formats than `.md`, `.txt`, `.json` and `.jsonl`.
    pub unsupported: u64,
    /// Files and folders that cannot be read, or with a name that is not UTF-8.
    pub unreadable: u64,
    /// Malformed documents and documents without text.
    pub malformed: u64,
}

impl Skipped {
    /// Returns the sum of all reasons.
    pub const fn total(&self) -> u64 {
        self.too_large
            + self.binary
            + self.hidden
            + self.links
            + self.unsupported
            + self.unreadable
            + self.malformed
    }
}

/// A file with documents.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Path relative to the folder, with `/` between its parts.
    pub relative: String,
    /// Path to open. For links, the path of the target.
    pub path: PathBuf,
    pub format: Format,
    pub size: u64,
    /// Time of the last change, in nanoseconds since the Unix epoch; 0 if it is unknown.
    pub modified_ns: u64,
}

/// Lists the files below a folder, sorted by path. Never leaves the folder. `except` is a folder to
/// leave out, such as that of the index.
pub(crate) fn scan(root: &Path, except: &Path) -> Result<(Vec<Found>, Skipped), CorpusError> {
    let root = root.canonicalize().map_err(CorpusError::io(root))?;
    let except = except.canonicalize().ok();
    let mut scan = Scan {
        root: root.clone(),
        found: Vec::new(),
        skipped: Skipped::default(),
        folders: vec![(root.clone(), String::new())],
    };
    // Only the folder itself must be readable.
    std::fs::read_dir(&root).map_err(CorpusError::io(&root))?;
    while let Some((folder, relative)) = scan.folders.pop() {
        if except.as_ref() == Some(&folder) {
            continue;
        }
        match std::fs::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => scan.add(&entry, &relative),
                        Err(_) => scan.skipped.unreadable += 1,
                    }
                }
            }
            Err(_) => scan.skipped.unreadable += 1,
        }
    }
    scan.found.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
    Ok((scan.found, scan.skipped))
}

struct Scan {
    root: PathBuf,
    found: Vec<Found>,
    skipped: Skipped,
    /// Folders to read, with their relative paths.
    folders: Vec<(PathBuf, String)>,
}

impl Scan {
    fn add(&mut self, entry: &std::fs::DirEntry, parent: &str) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            self.skipped.unreadable += 1;
            return;
        };
        if name.starts_with('.') {
            self.skipped.hidden += 1;
            return;
        }
        let relative = match parent {
            "" => name.to_owned(),
            _ => format!("{parent}/{name}"),
        };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => self.folders.push((entry.path(), relative)),
            Ok(kind) if kind.is_file() => self.add_file(entry.path(), relative),
            Ok(kind) if kind.is_symlink() => match entry.path().canonicalize() {
                Ok(target) if target.starts_with(&self.root) && target.is_file() => {
                    self.add_file(target, relative);
                }
                _ => self.skipped.links += 1,
            },
            Ok(_) => self.skipped.links += 1,
            Err(_) => self.skipped.unreadable += 1,
        }
    }

    fn add_file(&mut self, path: PathBuf, relative: String) {
        let Some(format) = Format::of(Path::new(&relative)) else {
            self.skipped.unsupported += 1;
            return;
        };
        match path.metadata() {
            Ok(metadata) if metadata.len() > MAX_FILE_BYTES => self.skipped.too_large += 1,
            Ok(metadata) => self.found.push(Found {
                relative,
                path,
                format,
                size: metadata.len(),
                modified_ns: modified_ns(&metadata),
            }),
            Err(_) => self.skipped.unreadable += 1,
        }
    }
}

fn modified_ns(metadata: &Metadata) -> u64 {
    let since_epoch = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Reads a file that may have changed since it was found. Returns `None` if it is unreadable or has
/// become too large.
pub(crate) fn read(file: &Found) -> Option<Vec<u8>> {
    let opened = File::open(&file.path).ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).unwrap_or(0));
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes)
}

/// Returns the SHA-256 hash of the content, in hexadecimal digits.
pub(crate) fn hash(content: &[u8]) -> String {
    use std::fmt::Write;
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
