//! The journal's files: a header, then frames ([`super::record`]), then zeros up to the full size.
//!
//! Header: magic (8 bytes, the last one is the version), installation (16 bytes), CRC-32 of both
//! (u32).
//!
//! A file has its full size from the start and is written through a shared memory mapping. A record
//! in the mapping survives the death of the process, like written data, but needs no system call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use memmap2::MmapMut;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::journal::record::{NextRecord, Record, read};

const MAGIC: [u8; 8] = *b"TGJRNL\0\x01";
const HEADER: usize = 28;

/// Random id of the database that a journal belongs to.
pub(crate) type Installation = [u8; 16];

/// A segment that accepts records.
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The mapped file, which the journal's thread syncs.
    pub(crate) file: Arc<File>,
    map: MmapMut,
    length: usize,
}

/// The segments of an earlier run.
#[derive(Default)]
pub(crate) struct ReplayedSegments {
    /// All segments, oldest first. The flag is true for a damaged segment.
    pub(crate) segments: Vec<(PathBuf, bool)>,
    /// Largest sequence number that was read; 0 if there is no record.
    pub(crate) last: u64,
}

impl Segment {
    /// Creates a segment with a size of `bytes` and syncs it to disk. The segments are ordered by
    /// `number`, which is part of the file name.
    pub(crate) fn create(
        dir: &Path,
        installation: Installation,
        number: u64,
        bytes: usize,
    ) -> io::Result<Segment> {
        let path = dir.join(format!("journal-{number:020}.log"));
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        fill(&file, bytes.max(HEADER))?;
        let mut map = map(&file)?;
        map[..HEADER].copy_from_slice(&header(installation));
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(Segment {
            path,
            file: Arc::new(file),
            map,
            length: HEADER,
        })
    }

    /// Returns the size of a segment that holds one record of this length, in bytes.
    pub(crate) const fn size_for(record: usize) -> usize {
        HEADER + record
    }

    /// Appends a record; returns false and writes nothing if the record does not fit.
    pub(crate) fn append(&mut self, record: &[u8]) -> bool {
        let Some(place) = self.map.get_mut(self.length..self.length + record.len()) else {
            return false;
        };
        // The first bytes are written last. If the process dies before that, the record has length
        // zero.
        let (first, rest) = place.split_at_mut(record.len().min(size_of::<u32>()));
        rest.copy_from_slice(&record[first.len()..]);
        fence(Ordering::Release);
        first.copy_from_slice(&record[..first.len()]);
        self.length += record.len();
        true
    }

    /// Whether a record of this many bytes fits.
    pub(crate) fn has_capacity(&self, record: usize) -> bool {
        self.map.len() - self.length >= record
    }

    /// Whether half of the segment is used, so that the next segment should be created.
    pub(crate) fn is_half_full(&self) -> bool {
        self.length >= self.map.len() / 2
    }
}

/// Fills the file with zeros. This allocates the disk space, so that a later sync writes only data.
fn fill(mut file: &File, bytes: usize) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(zeros.len());
        file.write_all(&zeros[..now])?;
        left -= now;
    }
    Ok(())
}

#[expect(
    unsafe_code,
    reason = "the lock on the directory keeps other processes from changing the mapped file"
)]
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: This process has just created the file, in a directory that it has locked. The file
    // is neither truncated nor written in another way while the mapping lives.
    unsafe { MmapMut::map_mut(file) }
}

/// Visits all records of earlier runs, in order. If a segment ends within a record, its complete
/// records are visited.
///
/// Returns `Corrupt` for a segment of another database and for an unknown record type.
pub(crate) fn replay(
    dir: &Path,
    installation: Installation,
    mut visit: impl FnMut(u64, Record),
) -> Result<ReplayedSegments> {
    let mut found = ReplayedSegments::default();
    for path in segments(dir).map_err(unreadable)? {
        let bytes = fs::read(&path).map_err(unreadable)?;
        let mut rest = match bytes.split_at_checked(HEADER) {
            // The process died while it created the file: the header is written after the zeros.
            _ if bytes.iter().all(|byte| *byte == 0) => &[],
            Some((head, rest)) => {
                check_header(&path, head, installation)?;
                rest
            }
            None => &[],
        };
        let torn = loop {
            match read(&mut rest) {
                NextRecord::Record(seq, record) => {
                    found.last = found.last.max(seq);
                    visit(seq, record);
                }
                NextRecord::Unknown => return Err(unknown(&path)),
                NextRecord::End { torn } => break torn,
            }
        };
        if torn > 0 {
            let name = path.display();
            tracing::warn!(path = %name, torn, "dropped the incomplete last record of the journal");
        }
        found.segments.push((path, torn > 0));
    }
    Ok(found)
}

/// Removes the segments of an earlier run. Damaged segments are renamed instead.
pub(crate) fn remove(dir: &Path, found: &ReplayedSegments) -> io::Result<()> {
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
    // The number has leading zeros, so the order of names is the order of numbers.
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
        true if crc_holds => {
            "belongs to another database: start with the database and the journal that belong \
             together"
        }
        false if crc_holds => "was written by another version of Tollgate: use that version",
        _ => "has a corrupt header: restore a backup of the database and the journal",
    };
    let name = path.display();
    Err(StorageError::new(
        StorageErrorKind::Corrupt,
        format!("the journal {name} {why}"),
    ))
}

fn unknown(path: &Path) -> StorageError {
    let name = path.display();
    let text = format!(
        "the journal {name} has a record type that this version of Tollgate does not support: use \
         the version that wrote the journal"
    );
    StorageError::new(StorageErrorKind::Corrupt, text)
}

fn unreadable(error: io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}
