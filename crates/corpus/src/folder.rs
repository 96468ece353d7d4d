//! The folder of a corpus: builds indexes of it and replaces the one in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tollgate_types::Clock;

use crate::builder::{OnProgress, build};
use crate::changes::{Changes, compare};
use crate::corpus::Stats;
use crate::error::CorpusError;
use crate::generations::{BuildLock, Generations};
use crate::manifest::Manifest;
use crate::scan::scan;
use crate::snapshot::Snapshot;

/// A folder of documents and its indexes.
pub(crate) struct Folder {
    path: PathBuf,
    prefix: String,
    generations: Generations,
    /// Number of the index in `current`; 0 if there is none.
    number: AtomicU64,
    current: ArcSwapOption<Snapshot>,
    is_building: AtomicBool,
}

impl Folder {
    /// Creates the state without an index. `prefix` is the start of the documents' URLs.
    pub fn new(path: PathBuf, prefix: String, index_folder: PathBuf) -> Self {
        Self {
            path,
            prefix,
            generations: Generations::new(index_folder),
            number: AtomicU64::new(0),
            current: ArcSwapOption::empty(),
            is_building: AtomicBool::new(false),
        }
    }

    /// Returns the index in use.
    pub fn current(&self) -> Option<Arc<Snapshot>> {
        self.current.load_full()
    }

    /// Whether this process is building an index.
    pub fn is_building(&self) -> bool {
        self.is_building.load(Ordering::Relaxed)
    }

    /// Uses the newest index, unless it is in use already. Returns its number; 0 if there is none.
    pub fn load_newest(&self) -> Result<u64, CorpusError> {
        if let Some((number, snapshot)) = self.generations.open_newest(&self.prefix)?
            && number > self.number.load(Ordering::Acquire)
        {
            self.current.store(Some(Arc::new(snapshot)));
            self.number.store(number, Ordering::Release);
        }
        Ok(self.number.load(Ordering::Acquire))
    }

    /// Builds an index if a file has changed or `is_forced` is set; returns `None` otherwise.
    pub fn update(
        &self,
        clock: &dyn Clock,
        on_progress: OnProgress<'_>,
        is_forced: bool,
    ) -> Result<Option<Stats>, CorpusError> {
        let start = clock.monotonic_micros();
        let lock = self.generations.lock()?;
        let _building = Building::start(&self.is_building);
        let number = self.load_newest()?;
        let (found, skipped) = scan(&self.path, self.generations.folder())?;
        if !is_forced && number > 0 {
            let folder = self.generations.folder_of(number);
            let mut manifest = Manifest::read(&folder)?;
            match compare(&manifest, &found) {
                Changes::None => return Ok(None),
                Changes::Times(states) => {
                    manifest.files = states;
                    manifest.write(&folder)?;
                    return Ok(None);
                }
                Changes::Files => {}
            }
        }
        let built_at = clock.now().as_micros();
        let manifest = self.replace(&lock, |folder| {
            build(folder, &self.prefix, &found, skipped, built_at, on_progress)
        })?;
        Ok(Some(Stats {
            documents: manifest.documents,
            passages: manifest.passages,
            skipped: manifest.skipped,
            duration: Duration::from_micros(clock.monotonic_micros().saturating_sub(start)),
        }))
    }

    /// Builds an index in a new folder and uses it. Removes the folder if the build fails.
    fn replace(
        &self,
        lock: &BuildLock,
        build: impl FnOnce(&Path) -> Result<Manifest, CorpusError>,
    ) -> Result<Manifest, CorpusError> {
        let (number, folder) = self.generations.start(lock)?;
        let built = build(&folder);
        let manifest = match built.and_then(|manifest| {
            self.generations.finish(lock, number, &folder)?;
            Ok(manifest)
        }) {
            Ok(manifest) => manifest,
            Err(error) => {
                if let Err(error) = std::fs::remove_dir_all(&folder) {
                    tracing::warn!(%error, folder = %folder.display(), "cannot remove an unfinished index");
                }
                return Err(error);
            }
        };
        self.load_newest()?;
        self.generations.remove_older(lock, number);
        Ok(manifest)
    }
}

/// Sets a flag until it is dropped.
struct Building<'a>(&'a AtomicBool);

impl<'a> Building<'a> {
    fn start(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Relaxed);
        Self(flag)
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
