//! A corpus in a temporary folder.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tollgate_types::clock::ManualClock;
use tollgate_types::{Clock, RequestId, Timestamp};
use tollgate_upstream::search::{SearchBackend, SearchDocument, SearchFilters, SearchHit, SearchQuery};
use tollgate_upstream::{CallContext, Permit};

use crate::{Corpus, CorpusError, CorpusSettings, Progress, Stats};

pub(super) struct Fixture {
    _temporary: TempDir,
    pub documents: PathBuf,
    pub index: PathBuf,
    pub url_prefix: Option<String>,
}

impl Fixture {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let fixture = Self {
            documents: temporary.path().join("documents"),
            index: temporary.path().join("data/corpora/handbook"),
            url_prefix: None,
            _temporary: temporary,
        };
        std::fs::create_dir(&fixture.documents).unwrap();
        for (path, content) in files {
            fixture.write(path, content);
        }
        fixture
    }

    pub fn with_prefix(prefix: &str, files: &[(&str, &str)]) -> Self {
        Self {
            url_prefix: Some(prefix.to_owned()),
            ..Self::new(files)
        }
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.documents.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Sets the time of the last change, in seconds since the epoch.
    pub fn set_time(&self, path: &str, seconds: u64) {
        let time: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options()
            .write(true)
            .open(self.documents.join(path))
            .unwrap();
        file.set_modified(time).unwrap();
    }

    pub fn settings(&self) -> CorpusSettings {
        CorpusSettings {
            name: "handbook".to_owned(),
            path: self.documents.clone(),
            url_prefix: self.url_prefix.clone(),
            is_private: true,
            index_folder: self.index.clone(),
            clock: clock(),
        }
    }

    pub fn open(&self) -> Corpus {
        Corpus::open(self.settings()).unwrap()
    }

    pub async fn built(&self) -> Corpus {
        let corpus = self.open();
        rebuild(&corpus).await;
        corpus
    }

    /// Names in the folder of the index, sorted.
    pub fn index_folders(&self) -> Vec<String> {
        names(&self.index)
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns a clock at noon of 30 June 2026.
pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(Timestamp::parse("2026-06-30T12:00:00Z").unwrap()))
}

pub(super) fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(super) async fn rebuild(corpus: &Corpus) -> Stats {
    corpus.rebuild(proceed).await.unwrap()
}

pub(super) async fn update(corpus: &Corpus) -> Result<Option<Stats>, CorpusError> {
    corpus.update(proceed).await
}

pub(super) fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(1_790_000_000_000 << 80),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
        inspected: false,
    }
}

pub(super) async fn search_with(corpus: &Corpus, text: &str, filters: SearchFilters) -> Vec<SearchHit> {
    let query = SearchQuery {
        text: text.to_owned(),
        max_hits: 10,
        filters,
    };
    corpus.search(&context(), &query).await.unwrap()
}

pub(super) async fn search(corpus: &Corpus, text: &str) -> Vec<SearchHit> {
    search_with(corpus, text, SearchFilters::default()).await
}

/// Returns the URLs of the hits, without `corpus://handbook/`.
pub(super) async fn paths(corpus: &Corpus, text: &str) -> Vec<String> {
    let hits = search(corpus, text).await.into_iter();
    hits.map(|hit| hit.url.replace("corpus://handbook/", ""))
        .collect()
}

pub(super) async fn read(corpus: &Corpus, url: &str) -> Option<SearchDocument> {
    corpus.read(&context(), url).await.unwrap()
}
