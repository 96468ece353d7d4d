//! Checks of the web search backends: each answers a test query.

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate_inference::research::WebBackend;
use tollgate_pipeline::test_search;
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;
use tollgate_upstream::{
    SearchBackend, SearchFilters, SearchHit, SearchQuery, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::Finding;
use crate::assemble::http_client;
use crate::config::Config;
use crate::web_search;

/// Query with results in any index of web pages and in any encyclopedia.
const TEST_QUERY: &str = "history of the lighthouse";
/// Maximum number of hits of the test query.
const MAX_HITS: u32 = 5;

/// Sends a test query to every configured backend, concurrently.
pub async fn check(config: &Config) -> Vec<Finding> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    // Invalid settings are an error of the whole configuration, which another check reports.
    let backends = web_search::build(config, &http_client(config), &clock).unwrap_or_default();
    join_all(backends.iter().map(|backend| of_backend(backend, &*clock))).await
}

async fn of_backend(web: &WebBackend, clock: &dyn Clock) -> Finding {
    let query = SearchQuery {
        text: TEST_QUERY.to_owned(),
        max_hits: MAX_HITS,
        filters: SearchFilters::default(),
    };
    let started = clock.monotonic_micros();
    let found = test_search(&*web.backend, &query).await;
    let duration_ms = (clock.monotonic_micros() - started) / 1_000;
    finding(web.backend.name(), &found, duration_ms)
}

fn finding(name: &str, found: &Result<Vec<SearchHit>, UpstreamError>, duration_ms: u64) -> Finding {
    let what = format!("search {name}");
    let error = match found {
        Ok(hits) if hits.is_empty() => {
            let remedy = "check that the server has search engines or pages";
            return Finding::note(what, "answers, but finds nothing for a test query", remedy);
        }
        Ok(hits) => {
            let detail = format!(
                "answers a test query with {} results in {duration_ms} ms",
                hits.len()
            );
            return Finding::fine(what, detail);
        }
        Err(error) => error,
    };
    let section = format!("search.{name}");
    match (error.kind, error.cause) {
        (UpstreamErrorKind::Credentials, _) => Finding::fault(
            what,
            format!("refuses the key or the account: {error}"),
            format!("check the key in [{section}], and the account at the service"),
        ),
        (UpstreamErrorKind::RateLimited, _) => Finding::note(
            what,
            format!("limits the rate of searches: {error}"),
            "try again later, or raise the limit at the service",
        ),
        (_, UpstreamCause::Timeout) => Finding::fault(
            what,
            format!("does not answer in time: {error}"),
            format!("check the server, or raise {section}.timeout_ms"),
        ),
        (_, UpstreamCause::Connect) => Finding::fault(
            what,
            format!("cannot be reached: {error}"),
            format!("check {section}.base_url and the network of this machine"),
        ),
        _ => Finding::fault(
            what,
            format!("does not answer a test query: {error}"),
            format!("check {section}.base_url, and the settings of the service"),
        ),
    }
}
