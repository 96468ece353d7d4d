//! Document collections of research: the configured folders and the built-in corpus.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tollgate_corpus::{Corpus, CorpusError, CorpusSettings, Stats, demo};
use tollgate_inference::research::Corpora;
use tollgate_operations::research::CorpusView;
use tollgate_types::clock::SystemClock;
use tollgate_types::{Clock, Timestamp};
use tollgate_upstream::SearchBackend;

use crate::config::{Config, ConfigError};

/// Subfolder of the data directory with the indexes.
const FOLDER: &str = "corpora";
/// Interval at which the folders are compared with their indexes.
const UPDATE_INTERVAL: Duration = Duration::from_mins(1);

/// Opens the configured corpora with their indexes. Builds none.
pub fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Vec<Corpus>, ConfigError> {
    let sections = config.file.corpora.iter();
    let corpora = sections.map(|(name, section)| {
        let settings = CorpusSettings {
            name: name.clone(),
            path: section.path.clone(),
            url_prefix: section.url_prefix.clone(),
            is_private: section.private,
            index_folder: config.data.join(FOLDER).join(name),
            clock: clock.clone(),
        };
        Corpus::open(settings).map_err(|error| ConfigError::new(format!("corpora.{name}"), error.to_string()))
    });
    corpora.collect()
}

/// Returns the corpora that research searches.
pub fn backends(corpora: &[Corpus], clock: &Arc<dyn Clock>) -> Corpora {
    let entry = |corpus: &Corpus| -> (String, Arc<dyn SearchBackend>) {
        (corpus.corpus_name().to_owned(), Arc::new(corpus.clone()))
    };
    Corpora {
        demo: Arc::new(demo(clock.clone())),
        configured: corpora.iter().map(entry).collect(),
    }
}

/// Builds the indexes of changed folders, now and every minute. Never returns.
pub(crate) async fn update_regularly(corpora: Vec<Corpus>) {
    loop {
        for corpus in &corpora {
            update(corpus).await;
        }
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

async fn update(corpus: &Corpus) {
    let name = corpus.corpus_name();
    match corpus.update(|_| ControlFlow::Continue(())).await {
        Ok(None) | Err(CorpusError::Busy) => {}
        Ok(Some(Stats {
            documents,
            passages,
            duration,
            ..
        })) => {
            let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(
                corpus = name,
                documents,
                passages,
                duration_ms,
                "indexed a corpus"
            );
        }
        Err(error) => tracing::warn!(corpus = name, %error, "cannot index a corpus"),
    }
}

/// Returns the state of a corpus and its index.
pub(crate) fn view(corpus: &Corpus) -> CorpusView {
    let status = corpus.status();
    CorpusView {
        name: corpus.corpus_name().to_owned(),
        is_private: corpus.is_private(),
        is_built: status.is_built,
        is_building: status.is_building,
        documents: status.documents,
        passages: status.passages,
        skipped: status.skipped.total(),
        built_at: status.built_at.map(Timestamp::to_rfc3339),
    }
}

/// Returns the state of each configured corpus, by name.
pub fn list(config: &Config) -> Result<Vec<CorpusView>, ConfigError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Ok(open(config, &clock)?.iter().map(view).collect())
}

/// Builds the index of a corpus. `on_progress` receives the number of indexed files and of all
/// files.
pub async fn rebuild(
    config: &Config,
    name: &str,
    mut on_progress: impl FnMut(u64, u64) + Send + 'static,
) -> anyhow::Result<CorpusView> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let corpora = open(config, &clock)?;
    let Some(corpus) = corpora.iter().find(|corpus| corpus.corpus_name() == name) else {
        let known: Vec<&str> = corpora.iter().map(Corpus::corpus_name).collect();
        let known = match known.is_empty() {
            true => "none is configured; add a section [corpora.NAME] with a path".to_owned(),
            false => format!("configured: {}", known.join(", ")),
        };
        anyhow::bail!("there is no corpus '{name}'; {known}");
    };
    let built = corpus.rebuild(move |progress| {
        on_progress(progress.files, progress.total_files);
        ControlFlow::Continue(())
    });
    built.await?;
    Ok(view(corpus))
}
