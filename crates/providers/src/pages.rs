//! Reads web pages for research: fetches a page and extracts its text.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::{AccountId, Clock, Date};
use tollgate_upstream::{
    ExtractError, ExtractedPage, PageExtractor, PageFetcher, PageHead, PageReader, PageSkipped,
    SearchDocument, WebPage,
};

/// Reader of web pages.
pub struct WebPages {
    fetcher: Arc<dyn PageFetcher>,
    extractor: Arc<dyn PageExtractor>,
    clock: Arc<dyn Clock>,
}

impl WebPages {
    /// Creates a reader of a fetcher and an extractor.
    pub fn new(
        fetcher: Arc<dyn PageFetcher>,
        extractor: Arc<dyn PageExtractor>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            fetcher,
            extractor,
            clock,
        }
    }
}

#[async_trait]
impl PageReader for WebPages {
    async fn read(&self, account: Option<AccountId>, url: &str) -> Result<WebPage, PageSkipped> {
        let fetched = self.fetcher.fetch(account, url).await?;
        if fetched.status != 200 {
            return Err(PageSkipped::Status(fetched.status));
        }
        let head = PageHead {
            url: fetched.final_url,
            media_type: fetched.media_type,
            charset: fetched.charset,
            today: Date::of(self.clock.now()).ok_or(ExtractError::Unavailable)?,
        };
        let page = self.extractor.extract(&head, &fetched.bytes).await?;
        Ok(WebPage {
            document: SearchDocument {
                url: head.url,
                title: page.title,
                author: page.author,
                date: page.date,
                text: page.text,
            },
            language: page.language,
            canonical_url: page.canonical_url,
            etag: fetched.etag,
            last_modified: fetched.last_modified,
            is_truncated: page.is_truncated,
            has_hidden_text: page.has_hidden_text,
        })
    }
}

/// Reader for programs without an extraction process. It skips every page.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPages;

#[async_trait]
impl PageReader for NoPages {
    async fn read(&self, _: Option<AccountId>, _: &str) -> Result<WebPage, PageSkipped> {
        Err(ExtractError::Unavailable.into())
    }
}

#[async_trait]
impl PageExtractor for NoPages {
    async fn extract(&self, _: &PageHead, _: &Bytes) -> Result<ExtractedPage, ExtractError> {
        Err(ExtractError::Unavailable)
    }
}
