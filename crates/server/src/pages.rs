//! Web pages of research: the client that fetches them, and the processes that extract their text.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_providers::egress::{RobotsPolicy, SystemResolver};
use tollgate_providers::pages::{NoPages, WebPages};
use tollgate_providers::{
    EgressClient, EgressSettings, Extractor, ExtractorSettings, HttpClient, PageClient, PageSettings,
};
use tollgate_types::{Clock, Date};
use tollgate_upstream::{ExtractError, PageExtractor, PageHead, PageReader};

use crate::config::Config;
use crate::config::research::RobotsSetting;

/// Minimum average speed of a page, in bytes per second.
const MIN_BYTES_PER_SECOND: u32 = 4 << 10;

/// Reader of web pages, and the extractor of their texts.
pub(crate) struct Pages {
    pub(crate) reader: Arc<dyn PageReader>,
    pub(crate) extractor: Arc<dyn PageExtractor>,
}

/// Creates the reader of web pages. It starts a process when it reads the first page.
pub(crate) fn build(config: &Config, http: &Arc<HttpClient>, clock: &Arc<dyn Clock>) -> Pages {
    let Some(program) = &config.program else {
        return Pages {
            reader: Arc::new(NoPages),
            extractor: Arc::new(NoPages),
        };
    };
    let settings = EgressSettings {
        allow: config.egress.clone(),
        min_bytes_per_second: MIN_BYTES_PER_SECOND,
        ..EgressSettings::default()
    };
    let client = EgressClient::new(settings, Arc::new(SystemResolver), http.clone());
    let settings = PageSettings {
        robots: match config.file.research.robots {
            RobotsSetting::Obey => RobotsPolicy::Obey,
            RobotsSetting::Ignore => RobotsPolicy::Ignore,
        },
        ..PageSettings::default()
    };
    let fetcher = Arc::new(PageClient::new(client, settings));
    let extractor: Arc<dyn PageExtractor> = Arc::new(Extractor::new(ExtractorSettings::of(program)));
    let reader = WebPages::new(fetcher, extractor.clone(), clock.clone());
    Pages {
        reader: Arc::new(reader),
        extractor,
    }
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
