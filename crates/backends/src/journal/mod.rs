//! The journal: append-only files with ledger changes that are not in the database yet. It survives
//! the death of the process.
//!
//! [`Journal::append`] numbers a record, writes it to the file and queues it for the database under
//! one lock, so that file and queue have the same order. A thread syncs the file to disk every few
//! milliseconds.

pub(crate) mod record;
pub(crate) mod segment;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use tollgate_storage::{Refund, Result, Settlement, StorageError, StorageErrorKind};

use crate::fatal::Fatal;
use crate::ids::lock;
use record::{Frame, Hold, Shrink, Week, Window};
use segment::{Installation, Segment};

/// Maximum number of records that wait for the database. Beyond it, the journal accepts no records.
const MAX_PENDING: usize = 250_000;

/// A record queued for the database.
pub(crate) enum Entry {
    /// A hold was created.
    Hold {
        /// Sequence number of the hold's record.
        seq: u64,
        /// Terms of the hold when it was created.
        hold: Arc<Hold>,
    },
    /// A hold was resolved.
    Settle {
        /// Sequence number of the settlement's record.
        seq: u64,
        /// Sequence number of the hold; zero if it was read from the database.
        hold_seq: u64,
        /// Terms of the hold.
        hold: Arc<Hold>,
        /// The settlement; its charge is capped at the held amount.
        settlement: Settlement,
        /// State of the hold's week at the time of the settlement.
        week: Week,
    },
    /// A week of a plan was opened.
    Window {
        /// Sequence number of the week's record.
        seq: u64,
        /// The closed week, if any, and the opened one.
        window: Window,
    },
    /// A charge was refunded.
    Refund {
        /// Sequence number of the refund's record.
        seq: u64,
        /// The refund as stored.
        refund: Refund,
    },
    /// A part of a hold was released early.
    Shrink {
        /// Sequence number of the release's record.
        seq: u64,
        /// Sequence number of the hold; zero if it was read from the database.
        hold_seq: u64,
        /// Terms of the hold before this release.
        hold: Arc<Hold>,
        /// The early release.
        shrink: Shrink,
    },
}

/// An append-only log in segment files. One lock orders the records.
pub(crate) struct Journal {
    dir: PathBuf,
    installation: Installation,
    segment_bytes: usize,
    sync_after: Duration,
    queues: bool,
    fatal: Arc<Fatal>,
    /// Number of the next segment.
    next_segment: AtomicU64,
    tail: Mutex<Tail>,
    full: Mutex<VecDeque<FullSegment>>,
    dirty: AtomicBool,
    broken: AtomicBool,
    stopped: AtomicBool,
    syncer: OnceLock<Thread>,
}

/// The end of the journal, where records are appended.
struct Tail {
    segment: Segment,
    /// The next segment, created before it is needed.
    spare: Option<Segment>,
    next: u64,
    pending: Vec<Entry>,
    frame: Frame,
    /// Full files that may not be synced yet.
    unsynced: Vec<Arc<File>>,
    closed: bool,
}

/// A full segment. It is removed when all its records are in the database.
struct FullSegment {
    path: PathBuf,
    last: u64,
}

pub(crate) struct JournalConfig {
    /// Directory of the segments.
    pub(crate) dir: PathBuf,
    /// Installation of the database that the segments belong to.
    pub(crate) installation: Installation,
    /// Sequence number of the first record.
    pub(crate) next: u64,
    /// Size of a segment in bytes.
    pub(crate) segment_bytes: usize,
    /// Maximum delay between a record and its sync to disk.
    pub(crate) sync_after: Duration,
    /// Whether records are queued for a database ([`Journal::take_pending`]).
    pub(crate) queues: bool,
    /// Recorder of fatal failures: failed syncs and panics of the sync thread.
    pub(crate) fatal: Arc<Fatal>,
}

impl Journal {
    /// Creates a journal and its first segment in the configured directory.
    pub(crate) fn create(config: JournalConfig) -> Result<Journal> {
        let next_segment = AtomicU64::new(config.next + 1);
        let segment = Segment::create(
            &config.dir,
            config.installation,
            config.next,
            config.segment_bytes,
        );
        Ok(Journal {
            tail: Mutex::new(Tail {
                segment: segment.map_err(unavailable)?,
                spare: None,
                next: config.next,
                pending: Vec::new(),
                frame: Frame::default(),
                unsynced: Vec::new(),
                closed: false,
            }),
            next_segment,
            dir: config.dir,
            installation: config.installation,
            segment_bytes: config.segment_bytes,
            sync_after: config.sync_after,
            queues: config.queues,
            fatal: config.fatal,
            full: Mutex::default(),
            dirty: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            syncer: OnceLock::new(),
        })
    }

    /// Appends the record that `entry` returns for its sequence number, and queues it for the
    /// database. Returns the sequence number and the length of the queue. Returns `Unavailable` if
    /// nothing was written.
    pub(crate) fn append(&self, entry: impl FnOnce(u64) -> Entry) -> Result<(u64, usize)> {
        let mut tail = lock(&self.tail);
        let tail = &mut *tail;
        self.check_open(tail)?;
        let seq = tail.next;
        let entry = entry(seq);
        let bytes = match &entry {
            Entry::Hold { hold, .. } => tail.frame.hold(seq, hold),
            Entry::Settle { settlement, week, .. } => tail.frame.settle(seq, settlement, *week),
            Entry::Window { window, .. } => tail.frame.window(seq, window),
            Entry::Refund { refund, .. } => tail.frame.refund(seq, refund),
            Entry::Shrink { shrink, .. } => tail.frame.shrink(seq, shrink),
        };
        if !tail.segment.append(bytes) {
            let bytes = bytes.len();
            self.change_segment(tail, bytes)?;
            let fits = tail.segment.append(tail.frame.bytes());
            debug_assert!(fits, "the record must fit in its new segment");
        }
        tail.next += 1;
        if self.queues {
            tail.pending.push(entry);
        }
        if !self.dirty.load(Ordering::Relaxed) && !self.dirty.swap(true, Ordering::AcqRel) {
            self.wake_syncer();
        }
        Ok((seq, tail.pending.len()))
    }

    /// Switches to another segment that has at least `record` bytes free.
    #[cold]
    fn change_segment(&self, tail: &mut Tail, record: usize) -> Result<()> {
        let spare = tail.spare.take().filter(|spare| spare.has_capacity(record));
        let segment = match spare {
            Some(spare) => spare,
            None => self.make_segment(record).map_err(|error| {
                tracing::error!(%error, "cannot write the journal");
                unavailable(error)
            })?,
        };
        let full = std::mem::replace(&mut tail.segment, segment);
        tail.unsynced.push(full.file);
        lock(&self.full).push_back(FullSegment {
            path: full.path,
            last: tail.next - 1,
        });
        Ok(())
    }

    fn make_segment(&self, record: usize) -> io::Result<Segment> {
        let number = self.next_segment.fetch_add(1, Ordering::Relaxed);
        let bytes = self.segment_bytes.max(Segment::size_for(record));
        Segment::create(&self.dir, self.installation, number, bytes)
    }

    fn check_open(&self, tail: &Tail) -> Result<()> {
        let why = if tail.closed {
            "the engine is closed"
        } else if self.broken.load(Ordering::Relaxed) {
            "the journal cannot be written: repair its disk, then restart"
        } else if tail.pending.len() >= MAX_PENDING {
            "the database is too slow for the write load"
        } else {
            return Ok(());
        };
        Err(StorageError::new(StorageErrorKind::Unavailable, why))
    }

    /// Returns the queued records and replaces the queue by `recycled`, an empty list whose memory
    /// is reused.
    pub(crate) fn take_pending(&self, recycled: Vec<Entry>) -> Vec<Entry> {
        std::mem::replace(&mut lock(&self.tail).pending, recycled)
    }

    /// Returns the number of queued records.
    pub(crate) fn pending(&self) -> usize {
        lock(&self.tail).pending.len()
    }

    /// Returns the sequence number of the last record.
    pub(crate) fn last(&self) -> u64 {
        lock(&self.tail).next - 1
    }

    /// Closes the journal: all further records are refused.
    pub(crate) fn close(&self) {
        lock(&self.tail).closed = true;
    }

    /// Creates the next segment if the current one is half full, and removes segments whose
    /// sequence numbers are all below `needed`.
    pub(crate) fn tidy(&self, needed: u64) -> io::Result<()> {
        let wants_spare = {
            let tail = lock(&self.tail);
            tail.spare.is_none() && tail.segment.is_half_full()
        };
        if wants_spare {
            // The file is created outside the lock; concurrent records are still appended to the
            // current segment.
            let spare = self.make_segment(0)?;
            if let Some(unused) = lock(&self.tail).spare.replace(spare) {
                fs::remove_file(unused.path)?;
            }
        }
        let mut full = lock(&self.full);
        while full.front().is_some_and(|segment| segment.last < needed) {
            if let Some(segment) = full.pop_front() {
                fs::remove_file(segment.path)?;
            }
        }
        Ok(())
    }

    /// Removes all segments. Afterwards no record may be appended.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for segment in lock(&self.full).drain(..) {
            fs::remove_file(segment.path)?;
        }
        let mut tail = lock(&self.tail);
        if let Some(spare) = tail.spare.take() {
            fs::remove_file(spare.path)?;
        }
        fs::remove_file(&tail.segment.path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Starts the thread that syncs the journal to disk.
    pub(crate) fn start_syncer(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let journal = self.clone();
        let handle = thread::Builder::new()
            .name("tollgate-journal".to_owned())
            .spawn(move || {
                let synced = catch_unwind(AssertUnwindSafe(|| journal.sync_until_stopped()));
                if synced.is_err() {
                    journal.broken.store(true, Ordering::SeqCst);
                    journal.fatal.report("the thread that syncs the journal panicked");
                }
            })?;
        // `set` cannot fail: the thread is started once.
        let _ = self.syncer.set(handle.thread().clone());
        Ok(handle)
    }

    /// Stops the sync thread after a last sync.
    pub(crate) fn stop_syncer(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_syncer();
    }

    fn wake_syncer(&self) {
        if let Some(thread) = self.syncer.get() {
            thread.unpark();
        }
    }

    fn sync_until_stopped(&self) {
        loop {
            let stopped = self.stopped.load(Ordering::SeqCst);
            if self.dirty.swap(false, Ordering::AcqRel) {
                self.sync();
                if !stopped {
                    // Records that are appended during the pause share the next sync.
                    thread::sleep(self.sync_after);
                }
            } else if stopped {
                return;
            } else {
                thread::park();
            }
        }
    }

    fn sync(&self) {
        let files = {
            let mut tail = lock(&self.tail);
            let mut files = std::mem::take(&mut tail.unsynced);
            files.push(tail.segment.file.clone());
            files
        };
        for file in files {
            if let Err(error) = file.sync_data() {
                // After a failed sync, the state of the data on disk is unknown.
                self.broken.store(true, Ordering::SeqCst);
                self.fatal
                    .report(format!("cannot sync the journal to disk: {error}"));
            }
        }
    }
}

/// Converts an I/O error to `Unavailable`.
pub(crate) fn unavailable(error: io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}
