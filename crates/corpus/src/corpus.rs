//! A corpus: a folder and its index, or the built-in corpus.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_types::{Clock, Timestamp};

use crate::error::CorpusError;
use crate::folder::Folder;
use crate::location;
use crate::scan::Skipped;
use crate::snapshot::Snapshot;

/// Maximum length of the name of a corpus, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Settings of a corpus in a folder; the built-in corpus has none.
#[derive(Clone, Debug)]
pub struct CorpusSettings {
    /// 1 to 64 characters of `a`–`z`, `0`–`9`, `-` and `_`; the first is a letter or digit.
    pub name: String,
    /// Folder with the documents.
    pub path: PathBuf,
    /// URL before the relative paths of documents, such as `https://docs.example.com/`; by default
    /// `corpus://NAME/`. Without a slash at the end, one is added.
    pub url_prefix: Option<String>,
    /// Whether the content must not reach public search backends.
    pub is_private: bool,
    /// Folder for the index, such as `DATA_DIR/corpora/NAME`. It is created by the first build.
    pub index_folder: PathBuf,
    /// Source of the time, for maximum ages and durations.
    pub clock: Arc<dyn Clock>,
}

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Files that were indexed.
    pub files: u64,
    /// Files to index.
    pub total_files: u64,
    /// Documents in the indexed files.
    pub documents: u64,
}

/// Result of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Documents in the index.
    pub documents: u64,
    /// Passages in the index.
    pub passages: u64,
    /// Files and documents that are not in the index.
    pub skipped: Skipped,
    /// Time of the whole build.
    pub duration: Duration,
}

/// State of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether searches are possible.
    pub is_built: bool,
    /// Whether this process is building a new index.
    pub is_building: bool,
    /// Documents in the index; 0 without one.
    pub documents: u64,
    /// Passages in the index; 0 without one.
    pub passages: u64,
    /// Files and documents that are not in the index.
    pub skipped: Skipped,
    /// Time of the build; `None` without an index and for the built-in corpus.
    pub built_at: Option<Timestamp>,
}

/// A corpus. Clones share its state.
#[derive(Clone)]
pub struct Corpus {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    /// Name of the search backend, `corpus/NAME`.
    backend_name: String,
    is_private: bool,
    clock: Arc<dyn Clock>,
    source: Source,
}

enum Source {
    Folder(Folder),
    Embedded(fn() -> Result<Arc<Snapshot>, CorpusError>),
}

impl Corpus {
    /// Opens a corpus with its newest index, if it has one. Blocks while it reads the index; builds
    /// none. Call [`Corpus::update`] to build it.
    ///
    /// Returns an error if the name or the URL prefix is invalid, or the folder of the index cannot
    /// be read. An index that is damaged or was built by another version counts as none.
    pub fn open(settings: CorpusSettings) -> Result<Self, CorpusError> {
        check_name(&settings.name)?;
        let prefix = match settings.url_prefix {
            Some(prefix) => check_prefix(prefix)?,
            None => location::default_prefix(&settings.name),
        };
        let folder = Folder::new(settings.path, prefix, settings.index_folder);
        folder.load_newest()?;
        let source = Source::Folder(folder);
        Ok(Self::new(
            settings.name,
            settings.is_private,
            settings.clock,
            source,
        ))
    }

    /// Creates a public corpus without a folder. Its index is loaded at the first search.
    pub(crate) fn embedded(
        name: &str,
        clock: Arc<dyn Clock>,
        load: fn() -> Result<Arc<Snapshot>, CorpusError>,
    ) -> Self {
        Self::new(name.to_owned(), false, clock, Source::Embedded(load))
    }

    fn new(name: String, is_private: bool, clock: Arc<dyn Clock>, source: Source) -> Self {
        let inner = Inner {
            backend_name: format!("corpus/{name}"),
            name,
            is_private,
            clock,
            source,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the name in the settings, without `corpus/`.
    pub fn corpus_name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the name of the search backend, `corpus/NAME`.
    pub(crate) fn backend_name(&self) -> &str {
        &self.inner.backend_name
    }

    /// Whether the content must not reach public search backends.
    pub fn is_private(&self) -> bool {
        self.inner.is_private
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    /// Returns the state. The first call for the built-in corpus blocks while its index is built.
    pub fn status(&self) -> Status {
        let (snapshot, is_building) = match &self.inner.source {
            Source::Folder(folder) => (folder.current(), folder.is_building()),
            Source::Embedded(load) => (load().ok(), false),
        };
        let snapshot = snapshot.as_deref();
        Status {
            is_built: snapshot.is_some(),
            is_building,
            documents: snapshot.map_or(0, |snapshot| snapshot.documents),
            passages: snapshot.map_or(0, |snapshot| snapshot.passages),
            skipped: snapshot.map(|snapshot| snapshot.skipped).unwrap_or_default(),
            built_at: snapshot.and_then(|snapshot| snapshot.built_at),
        }
    }

    /// Builds the index if a file or a setting has changed since the last build. Returns `None` if
    /// nothing has changed. An index that another process has built is used.
    ///
    /// The callback receives the progress after each file; `Break` stops the build with
    /// [`CorpusError::Stopped`]. Searches use the old index until the new one is complete. Returns
    /// [`CorpusError::Busy`] during another build. The built-in corpus never changes.
    pub async fn update(
        &self,
        on_progress: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Option<Stats>, CorpusError> {
        self.build_in_background(on_progress, false).await
    }

    /// Builds the index, even if no file has changed. See [`Corpus::update`].
    pub async fn rebuild(
        &self,
        on_progress: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Stats, CorpusError> {
        let stats = self.build_in_background(on_progress, true).await?;
        Ok(stats.unwrap_or_else(|| {
            let status = self.status();
            Stats {
                documents: status.documents,
                passages: status.passages,
                skipped: status.skipped,
                duration: Duration::ZERO,
            }
        }))
    }

    async fn build_in_background(
        &self,
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static,
        is_forced: bool,
    ) -> Result<Option<Stats>, CorpusError> {
        let inner = self.inner.clone();
        blocking(move || match &inner.source {
            Source::Folder(folder) => folder.update(inner.clock.as_ref(), &mut on_progress, is_forced),
            Source::Embedded(_) => Ok(None),
        })
        .await
    }

    /// Calls a function with the current index, on a thread where it may block.
    pub(crate) async fn with_snapshot<T: Send + 'static>(
        &self,
        function: impl FnOnce(&Snapshot) -> Result<T, CorpusError> + Send + 'static,
    ) -> Result<T, CorpusError> {
        let inner = self.inner.clone();
        blocking(move || {
            let snapshot = match &inner.source {
                Source::Folder(folder) => folder.current().ok_or(CorpusError::NotBuilt)?,
                Source::Embedded(load) => load()?,
            };
            function(&snapshot)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    function: impl FnOnce() -> Result<T, CorpusError> + Send + 'static,
) -> Result<T, CorpusError> {
    let result = tokio::task::spawn_blocking(function).await;
    result.unwrap_or_else(|error| Err(CorpusError::Index(error.to_string())))
}

fn check_name(name: &str) -> Result<(), CorpusError> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte == b'-' || byte == b'_');
    match is_valid {
        true => Ok(()),
        false => Err(CorpusError::Name(name.to_owned())),
    }
}

/// Returns the prefix with a slash at its end.
fn check_prefix(prefix: String) -> Result<String, CorpusError> {
    let rest = prefix
        .strip_prefix("https://")
        .or_else(|| prefix.strip_prefix("http://"));
    let is_valid = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !prefix
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#'));
    match is_valid {
        true if prefix.ends_with('/') => Ok(prefix),
        true => Ok(prefix + "/"),
        false => Err(CorpusError::UrlPrefix(prefix)),
    }
}
