//! The journal's files. Each begins with a header, then come frames ([`super::record`]).
//!
//! Header: magic (8 bytes, the last one is the version), installation (16 bytes), CRC-32 of both (u32).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::record::{Next, Record, read};

const MAGIC: [u8; 8] = *b"TGJRNL\0\x01";
const HEADER: usize = 28;

/// Which database a journal belongs to.
pub(super) type Installation = [u8; 16];

/// A segment that takes records.
pub(super) struct Segment {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The file, opened to append.
    pub(super) file: File,
    /// Its length.
    pub(super) length: u64,
}

/// What was found in the segments of an earlier run.
#[derive(Default)]
pub(super) struct Found {
    /// Every segment, oldest first, and whether it is damaged.
    pub(super) segments: Vec<(PathBuf, bool)>,
    /// The largest sequence number.
    pub(super) last: u64,
}

impl Segment {
    /// Creates the segment whose records have `next` and larger numbers, durably.
    pub(super) fn create(dir: &Path, installation: Installation, next: u64) -> io::Result<Segment> {
        let path = dir.join(format!("journal-{next:020}.log"));
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        file.write_all(&header(installation))?;
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(Segment {
            path,
            file,
            length: HEADER as u64,
        })
    }
}

/// Shows every record of earlier runs, in order. A segment that ends in the middle of a record is read up to there.
pub(super) fn replay(
    dir: &Path,
    installation: Installation,
    mut visit: impl FnMut(u64, Record),
) -> Result<Found> {
    let mut found = Found::default();
    for path in segments(dir).map_err(unreadable)? {
        let bytes = fs::read(&path).map_err(unreadable)?;
        let mut rest = match bytes.split_at_checked(HEADER) {
            Some((head, rest)) => {
                check_header(&path, head, installation)?;
                rest
            }
            // The process died while it made the file.
            None => &[],
        };
        let torn = loop {
            match read(&mut rest) {
                Next::Record(seq, record) => {
                    found.last = found.last.max(seq);
                    visit(seq, record);
                }
                Next::Unknown => return Err(unknown(&path)),
                Next::End { torn } => break torn,
            }
        };
        if torn > 0 {
            let name = path.display();
            tracing::warn!(path = %name, torn, "the journal ends in the middle of a record, which is dropped");
        }
        found.segments.push((path, torn > 0));
    }
    Ok(found)
}

/// Removes the segments of an earlier run; damaged ones are set aside.
pub(super) fn remove(dir: &Path, found: &Found) -> io::Result<()> {
    for (path, damaged) in &found.segments {
        if *damaged {
            fs::rename(path, path.with_extension("log.damaged"))?;
        } else {
            fs::remove_file(path)?;
        }
    }
    File::open(dir)?.sync_all()
}

fn segments(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with("journal-") && name.ends_with(".log") {
            paths.push(path);
        }
    }
    // The number in the name has leading zeros, so names sort as numbers do.
    paths.sort();
    Ok(paths)
}

fn header(installation: Installation) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&installation);
    let crc = crc32fast::hash(&header[..24]);
    header[24..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn check_header(path: &Path, head: &[u8], installation: Installation) -> Result<()> {
    if head == header(installation) {
        return Ok(());
    }
    let crc_holds = head[24..] == crc32fast::hash(&head[..24]).to_le_bytes();
    let why = match head[..8] == MAGIC {
        true if crc_holds => "belongs to another database",
        false if crc_holds => "was written by another version of tollgate",
        _ => "has a damaged header",
    };
    let name = path.display();
    Err(StorageError::new(
        StorageErrorKind::Corrupt,
        format!("the journal {name} {why}: start with the database and the journal that belong together"),
    ))
}

fn unknown(path: &Path) -> StorageError {
    let name = path.display();
    let text = format!("the journal {name} has a record that this version of tollgate does not know");
    StorageError::new(StorageErrorKind::Corrupt, text)
}

fn unreadable(error: io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}
