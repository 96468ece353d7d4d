//! The journal's files. Each begins with a header, then come frames ([`super::record`]), then zeros up to its full size.
//!
//! Header: magic (8 bytes, the last one is the version), installation (16 bytes), CRC-32 of both (u32).
//!
//! A file has its full size from the beginning and is written through memory that the kernel shares with it: a record
//! that was copied there survives the death of the process like one that was written by a call, at the price of a copy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use memmap2::MmapMut;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::journal::record::{Next, Record, read};

const MAGIC: [u8; 8] = *b"TGJRNL\0\x01";
const HEADER: usize = 28;

/// Which database a journal belongs to.
pub(crate) type Installation = [u8; 16];

/// A segment that takes records.
pub(crate) struct Segment {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The file.
    pub(crate) file: Arc<File>,
    map: MmapMut,
    length: usize,
}

/// What was found in the segments of an earlier run.
#[derive(Default)]
pub(crate) struct Found {
    /// Every segment, oldest first, and whether it is damaged.
    pub(crate) segments: Vec<(PathBuf, bool)>,
    /// The largest sequence number.
    pub(crate) last: u64,
}

impl Segment {
    /// Creates a segment of this many bytes, durably. Segments are read in the order of their numbers.
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

    /// Bytes that a record of this many needs in a segment of its own.
    pub(crate) const fn size_for(record: usize) -> usize {
        HEADER + record
    }

    /// Appends a record; answers whether there was room.
    pub(crate) fn append(&mut self, record: &[u8]) -> bool {
        let Some(place) = self.map.get_mut(self.length..self.length + record.len()) else {
            return false;
        };
        // The first bytes last: a record that the process did not finish before it died has no length and is no record.
        let (first, rest) = place.split_at_mut(record.len().min(size_of::<u32>()));
        rest.copy_from_slice(&record[first.len()..]);
        fence(Ordering::Release);
        first.copy_from_slice(&record[..first.len()]);
        self.length += record.len();
        true
    }

    /// Whether a record of this many bytes can be appended.
    pub(crate) fn has_room(&self, record: usize) -> bool {
        self.map.len() - self.length >= record
    }

    /// Whether another segment will soon be needed.
    pub(crate) fn is_half_full(&self) -> bool {
        self.length >= self.map.len() / 2
    }
}

/// Fills the file. The disk then has room for it, which it could not refuse later, and bringing a record to the disk
/// later on is nothing but writing its bytes.
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
    reason = "a file that others change under a mapping breaks Rust's rules, and nobody does"
)]
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: This process has just made the file, in a directory that it has locked, and the file is neither cut nor
    // written in another way as long as the mapping lives.
    unsafe { MmapMut::map_mut(file) }
}

/// Shows every record of earlier runs, in order. A segment that ends in the middle of a record is read up to there.
pub(crate) fn replay(
    dir: &Path,
    installation: Installation,
    mut visit: impl FnMut(u64, Record),
) -> Result<Found> {
    let mut found = Found::default();
    for path in segments(dir).map_err(unreadable)? {
        let bytes = fs::read(&path).map_err(unreadable)?;
        let mut rest = match bytes.split_at_checked(HEADER) {
            // The process died while it made the file: the header comes when the file has its size.
            _ if bytes.iter().all(|byte| *byte == 0) => &[],
            Some((head, rest)) => {
                check_header(&path, head, installation)?;
                rest
            }
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
pub(crate) fn remove(dir: &Path, found: &Found) -> io::Result<()> {
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
