//! Web pages of research: the client that fetches them, and the processes that extract their text.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_providers::egress::SystemResolver;
use tollgate_providers::pages::{NoPages, WebPages};
use tollgate_providers::{
    EgressClient, EgressSettings, Extractor, ExtractorSettings, HttpClient, PageClient, PageSettings,
};
use tollgate_types::{Clock, Date};
use tollgate_upstream::{ExtractError, PageExtractor, PageHead, PageReader};

use crate::config::Config;

/// Minimum average speed of a page, in bytes per second.
const MIN_BYTES_PER_SECOND: u32 = 4 << 10;

/// Creates the reader of web pages. It starts a process when it reads the first page.
pub(crate) fn reader(config: &Config, http: &Arc<HttpClient>, clock: &Arc<dyn Clock>) -> Arc<dyn PageReader> {
    let Some(program) = &config.program else {
        return Arc::new(NoPages);
    };
    let settings = EgressSettings {
        allow: config.egress.clone(),
        min_bytes_per_second: MIN_BYTES_PER_SECOND,
        ..EgressSettings::default()
    };
    let client = EgressClient::new(settings, Arc::new(SystemResolver), http.clone());
    let fetcher = PageClient::new(client, PageSettings::default());
    let extractor = Extractor::new(ExtractorSettings::of(program));
    Arc::new(WebPages::new(
        Arc::new(fetcher),
        Arc::new(extractor),
        clock.clone(),
    ))
}

/// Extracts the text of a small page. `None` if this program has no extraction.
pub(crate) async fn probe(config: &Config, today: Date) -> Option<Result<Duration, ExtractError>> {
    let settings = ExtractorSettings {
        processes: 1,
        ..ExtractorSettings::of(config.program.as_ref()?)
    };
    let extractor = Extractor::new(settings);
    let head = PageHead {
        url: "https://example.com/".to_owned(),
        media_type: "text/html".to_owned(),
        charset: None,
        today,
    };
    let page = Bytes::from_static(b"<title>Probe</title><p>Text of the probe.</p>");
    let started = tokio::time::Instant::now();
    let extracted = extractor.extract(&head, &page).await;
    Some(match extracted {
        Ok(page) if page.text == "Text of the probe." => Ok(started.elapsed()),
        Ok(_) => Err(ExtractError::Malformed),
        Err(error) => Err(error),
    })
}
