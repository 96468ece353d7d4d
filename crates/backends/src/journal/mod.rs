//! What happened, in order, before it is in the database: an append-only file that survives the death of the process.
//!
//! [`Journal::append`] gives a record its number, puts it into the file and queues it for the database in one step, so that the
//! order of the file is the order of the queue. A thread brings the file to the disk every few milliseconds.

pub(crate) mod record;
pub(crate) mod segment;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use tollgate_storage::{Refund, Result, Settlement, StorageError, StorageErrorKind};

use crate::ids::lock;
use record::{Frame, Hold, Shrink, Week, Window};
use segment::{Installation, Segment};

/// Records that may wait for the database. Beyond them new holds are refused: the database does not keep up.
const MOST_PENDING: usize = 250_000;

/// A record on its way to the database.
pub(crate) enum Entry {
    /// A hold was taken.
    Hold {
        /// Its place in the journal.
        seq: u64,
        /// Its terms.
        hold: Arc<Hold>,
    },
    /// A hold was resolved.
    Settle {
        /// Its place in the journal.
        seq: u64,
        /// The place of the hold; zero when it was read from the database.
        hold_seq: u64,
        /// The terms of the hold.
        hold: Arc<Hold>,
        /// How it was resolved; the charge is cut to the hold.
        settlement: Settlement,
        /// What has become of the hold's week.
        week: Week,
    },
    /// A week of a plan was opened.
    Window {
        /// Its place in the journal.
        seq: u64,
        /// Which.
        window: Window,
    },
    /// A charge was given back.
    Refund {
        /// Its place in the journal.
        seq: u64,
        /// What.
        refund: Refund,
    },
    /// A hold has given something back.
    Shrink {
        /// Its place in the journal.
        seq: u64,
        /// The place of the hold; zero when it was read from the database.
        hold_seq: u64,
        /// The terms of the hold, with what it had given back before.
        hold: Arc<Hold>,
        /// What it has given back.
        shrink: Shrink,
    },
}

/// The journal.
pub(crate) struct Journal {
    dir: PathBuf,
    installation: Installation,
    segment_bytes: usize,
    sync_after: Duration,
    queues: bool,
    /// The number of the next segment.
    next_segment: AtomicU64,
    tail: Mutex<Tail>,
    full: Mutex<VecDeque<FullSegment>>,
    dirty: AtomicBool,
    broken: AtomicBool,
    stopped: AtomicBool,
    syncer: OnceLock<Thread>,
}

/// Where records are appended.
struct Tail {
    segment: Segment,
    /// The segment after it, made before it is needed.
    spare: Option<Segment>,
    next: u64,
    pending: Vec<Entry>,
    frame: Frame,
    /// Files that are full and may not be on the disk yet.
    unsynced: Vec<Arc<File>>,
    closed: bool,
}

/// A segment that takes no more records.
struct FullSegment {
    path: PathBuf,
    last: u64,
}

/// Sizes and places.
pub(crate) struct JournalConfig {
    /// Where segments are.
    pub(crate) dir: PathBuf,
    /// Which database they belong to.
    pub(crate) installation: Installation,
    /// The first number to give.
    pub(crate) next: u64,
    /// When to begin another segment.
    pub(crate) segment_bytes: usize,
    /// How long a record may wait for the disk.
    pub(crate) sync_after: Duration,
    /// Whether records are queued for a database ([`Journal::take_pending`]).
    pub(crate) queues: bool,
}

impl Journal {
    /// Begins a journal in its directory.
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
            full: Mutex::default(),
            dirty: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            syncer: OnceLock::new(),
        })
    }

    /// Keeps the record that `entry` makes and queues it for the database. Answers its number and how many are
    /// queued. `Unavailable` when nothing was written.
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
            debug_assert!(fits, "a new segment has room for the record that it was made for");
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

    /// Goes on in another segment, which has room for a record of this many bytes.
    #[cold]
    fn change_segment(&self, tail: &mut Tail, record: usize) -> Result<()> {
        let spare = tail.spare.take().filter(|spare| spare.has_room(record));
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
            "the journal cannot be written: restart when its disk is in order"
        } else if tail.pending.len() >= MOST_PENDING {
            "the database does not keep up"
        } else {
            return Ok(());
        };
        Err(StorageError::new(StorageErrorKind::Unavailable, why))
    }

    /// Takes what waits for the database; `recycled` is an empty list whose memory is used again.
    pub(crate) fn take_pending(&self, recycled: Vec<Entry>) -> Vec<Entry> {
        std::mem::replace(&mut lock(&self.tail).pending, recycled)
    }

    /// How many records wait for the database.
    pub(crate) fn pending(&self) -> usize {
        lock(&self.tail).pending.len()
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> u64 {
        lock(&self.tail).next - 1
    }

    /// Whether the disk refused to keep what was written.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Refuses all further records.
    pub(crate) fn close(&self) {
        lock(&self.tail).closed = true;
    }

    /// Makes the next segment when it will soon be needed, and removes segments whose records are all below `needed`.
    pub(crate) fn tidy(&self, needed: u64) -> io::Result<()> {
        let wants_spare = {
            let tail = lock(&self.tail);
            tail.spare.is_none() && tail.segment.is_half_full()
        };
        if wants_spare {
            // The file is made outside the lock; records that come meanwhile still go to the old one.
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

    /// Removes every segment. Nothing may be appended afterwards.
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

    /// Starts the thread that brings the journal to the disk.
    pub(crate) fn start_syncer(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let journal = self.clone();
        let handle = thread::Builder::new()
            .name("tollgate-journal".to_owned())
            .spawn(move || journal.sync_until_stopped())?;
        // It is set once: the journal is started once.
        let _ = self.syncer.set(handle.thread().clone());
        Ok(handle)
    }

    /// Ends the thread; it syncs once more.
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
                    // What comes meanwhile is synced together.
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
                // After a failed sync nobody knows what is on the disk.
                self.broken.store(true, Ordering::SeqCst);
                tracing::error!(%error, "cannot bring the journal to the disk: new calls are refused");
            }
        }
    }
}

/// The file system refused.
pub(crate) fn unavailable(error: io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}
