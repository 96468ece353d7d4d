use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;
use tollgate_upstream::Permit;

use super::*;
use crate::Retries;

type Answer = Result<Vec<SearchHit>, UpstreamError>;

/// Returns its answers in order, the last one repeatedly.
struct Scripted {
    answers: Mutex<Vec<Answer>>,
    calls: AtomicU32,
}

#[async_trait]
impl SearchBackend for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn search(&self, _: &CallContext, _: &SearchQuery) -> Answer {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        }
    }

    async fn read(&self, _: &CallContext, _: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Err(UpstreamError::protocol("broken"))
    }
}

struct Fixture {
    scripted: Arc<Scripted>,
    guarded: GuardedSearch,
    clock: Arc<ManualClock>,
}

fn fixture(answers: Vec<Answer>) -> Fixture {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_000_000_000)));
    let health = Arc::new(Health::new(clock.clone(), Retries::default()));
    let scripted = Arc::new(Scripted {
        answers: Mutex::new(answers),
        calls: AtomicU32::new(0),
    });
    Fixture {
        guarded: GuardedSearch::new(scripted.clone(), health),
        scripted,
        clock,
    }
}

impl Fixture {
    async fn search(&self, text: &str) -> Answer {
        let query = SearchQuery {
            text: text.to_owned(),
            ..SearchQuery::default()
        };
        self.guarded.search(&context(), &query).await
    }

    fn calls(&self) -> u32 {
        self.scripted.calls.load(Ordering::Relaxed)
    }
}

fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(1),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(1),
        inspected: false,
    }
}

fn broken() -> UpstreamError {
    UpstreamError::protocol("broken")
}

#[tokio::test]
async fn a_backend_that_fails_repeatedly_is_not_called_until_a_probe_succeeds() {
    let failures = (0..5).map(|_| Err(broken()));
    let fixture = fixture(failures.chain([Ok(vec![SearchHit::default()])]).collect());
    assert_eq!(fixture.guarded.name(), "scripted");
    for _ in 0..5 {
        assert_eq!(fixture.search("a").await.unwrap_err().detail, "broken");
    }
    let error = fixture.search("a").await.unwrap_err();
    assert_eq!(
        (error.kind, error.cause),
        (UpstreamErrorKind::Unavailable, UpstreamCause::Connect)
    );
    assert_eq!(fixture.calls(), 5);
    assert!(fixture.guarded.read(&context(), "mcp://a").await.is_err());
    assert_eq!(fixture.calls(), 5, "reads are not tried either");
    fixture.clock.advance(Duration::from_secs(30));
    assert_eq!(fixture.search("a").await.unwrap().len(), 1);
    assert_eq!(fixture.search("a").await.unwrap().len(), 1);
    assert_eq!(fixture.calls(), 7);
}

#[tokio::test]
async fn failed_reads_open_the_breaker() {
    let fixture = fixture(vec![Ok(Vec::new())]);
    for _ in 0..5 {
        fixture.guarded.read(&context(), "mcp://a").await.unwrap_err();
    }
    fixture.search("a").await.unwrap_err();
    test_search(&fixture.guarded, &SearchQuery::default())
        .await
        .unwrap_err();
    assert_eq!(fixture.calls(), 5);
}

#[tokio::test]
async fn rate_limits_and_wrong_keys_pause_a_backend_after_one_failure() {
    for kind in [UpstreamErrorKind::RateLimited, UpstreamErrorKind::Credentials] {
        let error = UpstreamError::new(kind, UpstreamCause::Status, "refused");
        let fixture = fixture(vec![Err(error)]);
        fixture.search("a").await.unwrap_err();
        fixture.search("a").await.unwrap_err();
        assert_eq!(fixture.calls(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn queries_that_a_backend_rejects_do_not_open_the_breaker() {
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Status, "bad");
    let reported = UpstreamError {
        is_reported: true,
        ..broken()
    };
    for error in [rejected, reported] {
        let fixture = fixture(vec![Err(error)]);
        for _ in 0..10 {
            fixture.search("a").await.unwrap_err();
        }
        assert_eq!(fixture.calls(), 10);
    }
}

#[test]
fn outcomes_have_labels() {
    let failed = |kind, cause| Err(UpstreamError::new(kind, cause, ""));
    for (found, label) in [
        (Ok(Vec::new()), "empty"),
        (Ok(vec![SearchHit::default()]), "ok"),
        (Err(UpstreamError::timeout("")), "timeout"),
        (Err(UpstreamError::connect("")), "unavailable"),
        (
            failed(UpstreamErrorKind::Credentials, UpstreamCause::Status),
            "credentials",
        ),
        (
            failed(UpstreamErrorKind::RateLimited, UpstreamCause::Status),
            "rate_limited",
        ),
        (
            failed(UpstreamErrorKind::Rejected, UpstreamCause::Status),
            "rejected",
        ),
    ] {
        assert_eq!(outcome(&found), label);
    }
}
