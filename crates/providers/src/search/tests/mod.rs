//! Tests against a server that speaks the wire of each service.

mod faults;
mod requests;
mod responses;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest, Reply};
use tollgate_types::clock::ManualClock;
use tollgate_types::{RequestId, Timestamp};
use tollgate_upstream::{
    CallContext, Permit, SearchBackend, SearchFilters, SearchHit, SearchQuery, UpstreamError,
};

use super::{KINDS, SearchSettings, build, kind};
use crate::http::{EndpointError, HttpClient, HttpSettings};

const KEY: &str = "tvly-canary-4711-northwind";
const TODAY: &str = "2026-03-15T12:00:00Z";

struct Fixture {
    server: FakeUpstream,
    backend: Arc<dyn SearchBackend>,
}

impl Fixture {
    /// Starts a server and a backend of this kind for it.
    async fn of(kind: &str) -> Self {
        Self::with_timeout(kind, Duration::from_secs(20)).await
    }

    async fn with_timeout(kind: &str, timeout: Duration) -> Self {
        let server = FakeUpstream::start().await;
        let base_url = format!("http://{}/base", server.address());
        let backend = backend(kind, Some(&base_url), Some(KEY), timeout).unwrap();
        Self { server, backend }
    }

    async fn search(&self, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        self.backend.search(&context(), query).await
    }

    /// Answers every search with this reply.
    fn reply(&self, reply: Reply) {
        self.server.set_judge(move |_| Some(reply.clone()));
    }

    fn reply_json(&self, body: &Value) {
        self.reply(Reply::body(
            200,
            "application/json; charset=utf-8",
            body.to_string(),
        ));
    }

    fn last_request(&self) -> ReceivedRequest {
        self.server.requests().pop().unwrap()
    }
}

fn backend(
    name: &str,
    base_url: Option<&str>,
    key: Option<&str>,
    timeout: Duration,
) -> Result<Arc<dyn SearchBackend>, EndpointError> {
    let settings = SearchSettings {
        name: format!("my-{name}"),
        kind: kind(name).unwrap(),
        base_url: base_url.map(str::to_owned),
        api_key: key.map(SecretString::from),
        timeout,
    };
    let clock = ManualClock::at(Timestamp::parse(TODAY).unwrap());
    build(
        settings,
        HttpClient::new(HttpSettings::default()),
        Arc::new(clock),
    )
}

fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        inspected: false,
    }
}

fn query(text: &str) -> SearchQuery {
    filtered(text, SearchFilters::default())
}

fn filtered(text: &str, filters: SearchFilters) -> SearchQuery {
    SearchQuery {
        text: text.to_owned(),
        max_hits: 20,
        filters,
    }
}

fn sites(sites: &[&str]) -> Vec<String> {
    sites.iter().map(|site| (*site).to_owned()).collect()
}

#[test]
fn kinds_are_sorted_and_complete() {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    assert!(names.is_sorted());
    let hosted: Vec<&str> = KINDS
        .iter()
        .filter(|kind| kind.base_url.is_some())
        .map(|kind| kind.name)
        .collect();
    assert_eq!(hosted, ["brave", "exa", "perplexity", "serper", "tavily"]);
    for kind in KINDS {
        assert_eq!(
            kind.base_url.is_some(),
            kind.key_variable.is_some(),
            "{}",
            kind.name
        );
    }
    assert!(kind("bing").is_none());
}

#[test]
fn settings_are_checked() {
    let timeout = Duration::from_secs(1);
    let message = |kind: &str, base_url: Option<&str>, key: Option<&str>| {
        let built = backend(kind, base_url, key, timeout);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (kind, base_url, key, expected) in [
        ("searxng", None, None, "set base_url"),
        ("mediawiki", None, None, "set base_url"),
        ("searxng", Some("searx:8080"), None, "it must start with http"),
        (
            "searxng",
            Some("http://searx:8080/?x=1"),
            None,
            "remove the query",
        ),
        ("brave", None, None, "needs a key"),
        (
            "brave",
            Some("http://search.example.com"),
            Some(KEY),
            "is not https",
        ),
        ("brave", Some("http://search.internal"), Some(KEY), ""),
        ("searxng", Some("http://search.example.com"), None, ""),
        ("searxng", Some("http://searx:8080/"), None, ""),
        (
            "tavily",
            Some("http://127.0.0.1:1"),
            Some("a\nb"),
            "invalid in a header",
        ),
    ] {
        let message = message(kind, base_url, key);
        let is_right = match expected {
            "" => message.is_empty(),
            part => message.contains(part),
        };
        assert!(is_right, "{kind} {base_url:?}: {message}");
        assert!(!message.contains("canary"), "{message}");
    }
}
