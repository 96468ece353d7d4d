//! Search backends behind a circuit breaker, with a counter of their searches.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tollgate_catalog::Candidate;
use tollgate_types::RequestId;
use tollgate_upstream::{
    CallContext, SearchBackend, SearchDocument, SearchHit, SearchQuery, SourceKind, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

use crate::admit::free_context;
use crate::health::{Health, Report, Shape};

/// Maximum wait for the response headers of a test. The timeout of the backend is shorter.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);
const SEARCHES: &str = "tollgate_searches_total";
/// Histogram of the durations of searches, with the label `backend`.
pub const SEARCH_SECONDS: &str = "tollgate_search_seconds";
/// First part of the name of a backend in health data and log messages.
const PROVIDER: &str = "search";

/// A search backend that is not called while its circuit breaker is open. A search then fails
/// immediately, as if the backend could not be connected to.
pub struct GuardedSearch {
    backend: Arc<dyn SearchBackend>,
    health: Arc<Health>,
    candidate: Candidate,
}

impl GuardedSearch {
    /// Adds a circuit breaker to a backend. Backends share `health` with each other, but not with
    /// models.
    pub fn new(backend: Arc<dyn SearchBackend>, health: Arc<Health>) -> Self {
        metrics::describe_counter!(SEARCHES, "Searches of research, by backend and outcome");
        metrics::describe_histogram!(SEARCH_SECONDS, "Duration of searches of research, by backend");
        Self {
            candidate: Candidate::new(PROVIDER, backend.name(), None),
            backend,
            health,
        }
    }

    /// Returns the health of the backend, as this process sees it.
    pub fn report(&self) -> Report {
        self.health.report(&self.candidate).unwrap_or_default()
    }

    fn check(&self) -> Result<(), UpstreamError> {
        match self.health.is_usable(&self.candidate) {
            true => Ok(()),
            false => Err(UpstreamError::connect(
                "the backend failed repeatedly or limits its rate; it is tried again later",
            )),
        }
    }

    fn record<T>(&self, result: &Result<T, UpstreamError>, request: &str) {
        // A query that the backend cannot answer does not show that the backend is broken.
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        let hash = hasher.finish();
        let shape = Shape {
            coarse: hash,
            fine: hash,
        };
        match result {
            Ok(_) => self.health.succeeded(&self.candidate, shape),
            Err(error) => self.health.failed(&self.candidate, error, shape),
        }
    }

    fn count(&self, outcome: &'static str) {
        let backend = self.backend.name().to_owned();
        metrics::counter!(SEARCHES, "backend" => backend, "outcome" => outcome).increment(1);
    }
}

#[async_trait]
impl SearchBackend for GuardedSearch {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn kind(&self) -> SourceKind {
        self.backend.kind()
    }

    fn is_private(&self) -> bool {
        self.backend.is_private()
    }

    async fn search(&self, ctx: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        if let Err(error) = self.check() {
            self.count("not_tried");
            return Err(error);
        }
        let started = Instant::now();
        let found = self.backend.search(ctx, query).await;
        let backend = self.backend.name().to_owned();
        metrics::histogram!(SEARCH_SECONDS, "backend" => backend).record(started.elapsed());
        self.record(&found, &query.text);
        self.count(outcome(&found));
        found
    }

    async fn read(&self, ctx: &CallContext, url: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        self.check()?;
        let read = self.backend.read(ctx, url).await;
        self.record(&read, url);
        read
    }
}

/// Sends a test query of the operator to a backend. No caller pays for it.
pub async fn test_search(
    backend: &dyn SearchBackend,
    query: &SearchQuery,
) -> Result<Vec<SearchHit>, UpstreamError> {
    let ctx = free_context(RequestId::from_u128(0), "test of a search backend", TEST_TIMEOUT);
    backend.search(&ctx, query).await
}

/// Returns the outcome of a search as a label.
fn outcome(found: &Result<Vec<SearchHit>, UpstreamError>) -> &'static str {
    match found {
        Ok(hits) if hits.is_empty() => "empty",
        Ok(_) => "ok",
        Err(error) => match error.kind {
            UpstreamErrorKind::Credentials => "credentials",
            UpstreamErrorKind::RateLimited => "rate_limited",
            UpstreamErrorKind::Unavailable if error.cause == UpstreamCause::Timeout => "timeout",
            UpstreamErrorKind::Unavailable => "unavailable",
            _ => "rejected",
        },
    }
}
