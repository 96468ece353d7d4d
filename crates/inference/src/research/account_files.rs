//! Files of an account as sources: their texts are extracted when a report first searches them.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tollgate_evidence::bm25::Bm25;
use tollgate_evidence::passages::passages;
use tollgate_storage::{FileRecord, blob};
use tollgate_types::{AccountId, Clock, Date, Error, ErrorCode};
use tollgate_upstream::page::MAX_PDF_BYTES;
use tollgate_upstream::{
    CallContext, PageExtractor, PageHead, SearchBackend, SearchDocument, SearchHit, SearchQuery, SourceKind,
    UpstreamError,
};

use crate::files::Files;

/// Name of the backend.
const NAME: &str = "files";
/// Prefix of the URLs of files.
const SCHEME: &str = "file://";

/// Search over files of one account.
pub(super) struct AccountFiles {
    files: Arc<Files>,
    extractor: Arc<dyn PageExtractor>,
    clock: Arc<dyn Clock>,
    account: AccountId,
    ids: Vec<String>,
    index: OnceCell<Index>,
}

/// Texts of the files, by passage.
struct Index {
    documents: Vec<SearchDocument>,
    /// For each passage, the position of its document.
    places: Vec<usize>,
    ranking: Bm25,
}

impl AccountFiles {
    pub(super) fn new(
        files: Arc<Files>,
        extractor: Arc<dyn PageExtractor>,
        clock: Arc<dyn Clock>,
        account: AccountId,
        ids: Vec<String>,
    ) -> Self {
        Self {
            files,
            extractor,
            clock,
            account,
            ids,
            index: OnceCell::new(),
        }
    }

    /// Checks that the account has a file, and that its size permits to read it.
    pub(super) async fn check(files: &Files, account: AccountId, id: &str, param: &str) -> Result<(), Error> {
        let file = files.get(account, id, param).await?;
        match file.bytes > MAX_PDF_BYTES {
            true => {
                let message = format!(
                    "'{param}' has {} bytes; the maximum is {MAX_PDF_BYTES}.",
                    file.bytes
                );
                Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(param))
            }
            false => Ok(()),
        }
    }

    async fn index(&self) -> Result<&Index, UpstreamError> {
        self.index.get_or_try_init(|| self.read_all()).await
    }

    /// Extracts the texts of all files. Fails if no file can be read.
    async fn read_all(&self) -> Result<Index, UpstreamError> {
        let mut documents = Vec::new();
        let mut failure = None;
        for id in &self.ids {
            match self.document(id).await {
                Ok(document) => documents.push(document),
                Err(error) => {
                    tracing::warn!(file.id = %id, %error, "a file of a report cannot be read");
                    failure = Some(error);
                }
            }
        }
        if let Some(error) = failure.filter(|_| documents.is_empty()) {
            return Err(UpstreamError::protocol(error));
        }
        let indexed = tokio::task::spawn_blocking(move || {
            let mut places = Vec::new();
            let mut texts = Vec::new();
            for (place, document) in documents.iter().enumerate() {
                for passage in passages(&document.text) {
                    places.push(place);
                    texts.push(format!("{} {} {}", document.title, document.title, passage.text));
                }
            }
            Index {
                ranking: Bm25::new(&texts),
                documents,
                places,
            }
        });
        indexed
            .await
            .map_err(|error| UpstreamError::protocol(error.to_string()))
    }

    async fn document(&self, id: &str) -> Result<SearchDocument, String> {
        let file = self.files.get(self.account, id, "file_id").await;
        let file: FileRecord = file.map_err(|error| error.operator_message())?;
        let content = self.files.open(&file, None).await;
        let content = content.map_err(|error| error.operator_message())?;
        let bytes = blob::collect(content).await.map_err(|error| error.to_string())?;
        let head = PageHead {
            url: format!("{SCHEME}{id}"),
            media_type: media_type(&file),
            charset: None,
            today: Date::of(self.clock.now()).ok_or("the clock has no date")?,
        };
        let page = self.extractor.extract(&head, &bytes.into()).await;
        let page = page.map_err(|error| error.to_string())?;
        Ok(SearchDocument {
            url: head.url,
            title: match page.title.is_empty() {
                true => file.filename,
                false => page.title,
            },
            author: page.author,
            date: page.date,
            text: page.text,
        })
    }
}

/// Returns the media type of a file; that of its name for types that say nothing.
fn media_type(file: &FileRecord) -> String {
    let name = file.filename.to_ascii_lowercase();
    let by_name = match name.rsplit_once('.') {
        Some((_, "md" | "markdown")) => Some("text/markdown"),
        Some((_, "html" | "htm")) => Some("text/html"),
        Some((_, "json" | "jsonl")) => Some("application/json"),
        Some((_, "txt" | "csv")) => Some("text/plain"),
        Some((_, "pdf")) => Some("application/pdf"),
        _ => None,
    };
    let stated = file.media_type.split(';').next().unwrap_or_default().trim();
    let says_nothing = matches!(stated, "" | "application/octet-stream" | "text/plain");
    match by_name.filter(|_| says_nothing) {
        Some(by_name) => by_name.to_owned(),
        None => stated.to_ascii_lowercase(),
    }
}

#[async_trait]
impl SearchBackend for AccountFiles {
    fn name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> SourceKind {
        SourceKind::File
    }

    fn is_private(&self) -> bool {
        true
    }

    async fn search(&self, _: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        let index = self.index().await?;
        let mut hits: Vec<SearchHit> = Vec::new();
        for (passage, _) in index.ranking.rank(&query.text, index.places.len()) {
            let document = index
                .places
                .get(passage)
                .and_then(|place| index.documents.get(*place));
            let Some(document) = document else { continue };
            if hits.len() >= query.max_hits as usize {
                break;
            }
            if hits.iter().all(|hit| hit.url != document.url) {
                hits.push(SearchHit {
                    url: document.url.clone(),
                    title: document.title.clone(),
                    date: document.date,
                    is_readable: true,
                    ..SearchHit::default()
                });
            }
        }
        Ok(hits)
    }

    async fn read(&self, _: &CallContext, url: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        let index = self.index().await?;
        Ok(index
            .documents
            .iter()
            .find(|document| document.url == url)
            .cloned())
    }
}
