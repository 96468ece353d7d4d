//! The search backend of a corpus.

use async_trait::async_trait;
use tollgate_types::Date;
use tollgate_upstream::search::{SearchBackend, SearchDocument, SearchHit, SearchQuery, SourceKind};
use tollgate_upstream::{CallContext, UpstreamError};

use crate::corpus::Corpus;

#[async_trait]
impl SearchBackend for Corpus {
    fn name(&self) -> &str {
        self.backend_name()
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Corpus
    }

    fn is_private(&self) -> bool {
        Corpus::is_private(self)
    }

    async fn search(&self, _: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        let query = query.clone();
        let today = Date::of(self.clock().now());
        let hits = self
            .with_snapshot(move |snapshot| snapshot.search(&query, today))
            .await?;
        Ok(hits)
    }

    async fn read(&self, _: &CallContext, url: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        let url = url.to_owned();
        let document = self.with_snapshot(move |snapshot| snapshot.read(&url)).await?;
        Ok(document)
    }
}
