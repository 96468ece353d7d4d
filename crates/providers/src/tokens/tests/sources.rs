use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, Reply, refusing_base_url};
use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use super::super::{Issued, Metadata, ServiceAccount, TokenError, TokenSource};
use crate::http::{EndpointError, HttpClient, HttpSettings};

/// Current time: 2026-09-21T14:13:20Z in Unix seconds.
const NOW: i64 = 1_790_000_000;
const TIMEOUT: Duration = Duration::from_secs(20);

fn account(key: &str) -> Result<ServiceAccount, EndpointError> {
    let clock = ManualClock::at(Timestamp::from_micros(NOW * 1_000_000));
    ServiceAccount::read(&SecretString::from(key), Arc::new(clock))
}

async fn ask(source: &dyn TokenSource, timeout: Duration) -> Result<Issued, TokenError> {
    let settings = HttpSettings {
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    };
    source.issue(&HttpClient::new(settings), timeout).await
}

/// Returns the key with some members replaced.
fn with(key: &str, members: Value) -> String {
    let mut key: Value = serde_json::from_str(key).unwrap();
    for (name, value) in members.as_object().unwrap() {
        key[name] = value.clone();
    }
    key.to_string()
}

#[tokio::test]
async fn assertions_are_signed_and_short_lived() {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let known = account(&key).unwrap();
    let issued = ask(&known, TIMEOUT).await.unwrap();
    assert_eq!(issued.secret.expose_secret(), "ya29.c4n4ry-1");
    assert_eq!(issued.lifetime, Duration::from_secs(3_599));
    let request = upstream.requests().pop().unwrap();
    let body = std::str::from_utf8(&request.body).unwrap();
    let claims = body.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        (&claims["iat"], &claims["exp"]),
        (&json!(NOW - 10), &json!(NOW + 3_590))
    );
    assert_eq!(known.project(), Some("acme-project"));
    let shown = format!("{known:?} {issued:?}");
    assert!(!shown.contains("ya29") && !shown.contains("PRIVATE"), "{shown}");

    // The key belongs to another account.
    let stranger = FakeUpstream::start().await.issue_tokens();
    let stranger: Value = serde_json::from_str(&stranger).unwrap();
    let forged = with(&key, json!({"private_key": stranger["private_key"]}));
    let error = ask(&account(&forged).unwrap(), TIMEOUT).await.unwrap_err();
    assert!(
        error.is_refusal && error.detail.contains("(400 invalid_grant)"),
        "{error:?}"
    );
    assert_eq!(upstream.token_count(), 1);
}

/// Returns a rejection with the server's clock in its `date` header.
fn refusal(date: &str) -> Reply {
    let body = json!({"error": "invalid_grant", "error_description": "secret words"});
    Reply::body(400, "application/json", body.to_string()).header("date", date)
}

fn answer(body: &Value) -> Reply {
    Reply::body(200, "application/json", body.to_string())
}

#[tokio::test]
async fn token_errors_contain_no_secrets() {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let known = account(&key).unwrap();
    let description = format!("the token server at {}", upstream.address());
    let unknown = json!({"error": "secret words of the server"}).to_string();
    for (reply, is_refusal, expected) in [
        (
            refusal("Mon, 21 Sep 2026 14:13:20 GMT"),
            true,
            "rejected the service account (400 invalid_grant)",
        ),
        (
            refusal("Mon, 21 Sep 2026 14:14:21 GMT"),
            true,
            "rejected the service account (400 invalid_grant): the clock of this machine is 61 s behind the server's",
        ),
        (
            refusal("Mon, 21 Sep 2026 14:14:20 GMT"),
            true,
            "rejected the service account (400 invalid_grant)",
        ),
        (
            refusal("Mon, 21 Sep 2026 13:13:20 GMT"),
            true,
            "rejected the service account (400 invalid_grant): the clock of this machine is 3600 s ahead of the server's",
        ),
        (
            Reply::body(401, "application/json", unknown),
            true,
            "rejected the service account (401)",
        ),
        (Reply::html(403), true, "rejected the service account (403)"),
        (
            Reply::error(429, "slow_down", "secret"),
            false,
            "returned status 429",
        ),
        (Reply::html(500), false, "returned status 500"),
        (Reply::html(503), false, "returned status 503"),
        (
            Reply::html(302).header("location", "http://127.0.0.1:1/"),
            false,
            "returned status 302",
        ),
        (Reply::html(200), false, "returned a body that is not JSON"),
        (answer(&json!({"expires_in": 9})), false, "returned no token"),
        (
            answer(&json!({"access_token": "", "expires_in": 9})),
            false,
            "returned no token",
        ),
        (
            answer(&json!({"access_token": "secret\nx-more: 1", "expires_in": 9})),
            false,
            "returned no token",
        ),
        (
            answer(&json!({"access_token": "secret"})),
            false,
            "returned a token without a valid `expires_in`",
        ),
        (
            answer(&json!({"access_token": "secret", "expires_in": 0})),
            false,
            "returned a token without a valid `expires_in`",
        ),
        (
            answer(&json!({"access_token": "secret", "expires_in": 9, "token_type": "mac"})),
            false,
            "returned a token that is not a bearer token",
        ),
        (
            answer(&json!({"access_token": "s".repeat(70_000), "expires_in": 9})),
            false,
            "sent an unreadable response",
        ),
        (Reply::text("a").gzip(), false, "sent an unreadable response"),
        (Reply::reset(), false, "cannot be reached"),
    ] {
        let name = format!("{reply:?}");
        upstream.push_for_tokens(reply);
        let error = ask(&known, TIMEOUT).await.unwrap_err();
        assert_eq!(error.is_refusal, is_refusal, "{name}: {error:?}");
        let rest = error.detail.strip_prefix(&format!("{description} "));
        let rest = rest.unwrap_or_else(|| panic!("{name}: {error:?}"));
        assert!(rest.starts_with(expected), "{name}: {error:?}");
        assert_eq!(
            rest.contains("clock"),
            expected.contains("clock"),
            "{name}: {error:?}"
        );
        assert!(
            !rest.contains("secret") && !rest.contains("eyJ"),
            "{name}: {error:?}"
        );
        assert!(rest.len() < 300, "{name}: {error:?}");
    }
    upstream.push_for_tokens(Reply::hang());
    let error = ask(&known, Duration::from_millis(50)).await.unwrap_err();
    assert!(!error.is_refusal, "{error:?}");
    assert_eq!(upstream.token_count(), 0);

    let gone = refusing_base_url();
    let gone = account(&with(&key, json!({"token_uri": gone}))).unwrap();
    let error = ask(&gone, TIMEOUT).await.unwrap_err();
    assert!(error.detail.contains("cannot be reached"), "{error:?}");
}

#[tokio::test]
async fn token_lifetime_is_capped_at_a_day() {
    let upstream = FakeUpstream::start().await;
    let known = account(&upstream.issue_tokens()).unwrap();
    for (expires_in, believed) in [(1, 1), (86_400, 86_400), (86_401, 86_400), (u64::MAX, 86_400)] {
        upstream.push_for_tokens(answer(&json!({"access_token": "t", "expires_in": expires_in})));
        let issued = ask(&known, TIMEOUT).await.unwrap();
        assert_eq!(issued.lifetime, Duration::from_secs(believed));
    }
}

#[tokio::test]
async fn invalid_service_account_keys_are_described() {
    let key = FakeUpstream::start().await.issue_tokens();
    let whole: Value = serde_json::from_str(&key).unwrap();
    let cut = whole["private_key"].as_str().unwrap().replace("END", "AND");
    let empty = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    for (text, expected) in [
        ("c4n4ry".to_owned(), "invalid JSON at line 1, column 1"),
        (key[..90].to_owned(), "invalid JSON at line 1"),
        ("[]".to_owned(), "`type` is not `service_account`"),
        (
            with(&key, json!({"type": "c4n4ry"})),
            "`type` is not `service_account`",
        ),
        (
            with(&key, json!({"type": "authorized_user"})),
            "the type is unsupported; create a service account key",
        ),
        (
            with(&key, json!({"client_email": null})),
            "`client_email` is missing",
        ),
        (
            with(&key, json!({"private_key": " "})),
            "`private_key` is missing",
        ),
        (
            with(&key, json!({"private_key": "c4n4ry"})),
            "`private_key` is not a PEM key",
        ),
        (
            with(&key, json!({"private_key": cut})),
            "`private_key` is not a PEM key",
        ),
        (
            with(&key, json!({"private_key": empty("PRIVATE KEY")})),
            "`private_key` is not an RSA key of 2,048 to 8,192 bits",
        ),
        (
            with(&key, json!({"private_key": empty("EC PRIVATE KEY")})),
            "`private_key` is not an RSA key",
        ),
        (
            with(&key, json!({"token_uri": "file:///c4n4ry"})),
            "`token_uri` is not a URL",
        ),
    ] {
        let message = account(&text).unwrap_err().to_string();
        let start = format!("the credentials are not a service account key: {expected}");
        assert!(message.starts_with(&start), "{message} is not {start}");
        assert!(!message.contains("c4n4ry"), "{message}");
    }
    assert!(account(&with(&key, json!({"token_uri": null, "project_id": null}))).is_ok());
}

#[tokio::test]
async fn machine_tokens_come_from_the_metadata_server() {
    let upstream = FakeUpstream::start().await;
    upstream.issue_tokens();
    let machine = Metadata::new(&upstream.address().to_string()).unwrap();
    let issued = ask(&machine, TIMEOUT).await.unwrap();
    assert_eq!(issued.secret.expose_secret(), "ya29.c4n4ry-1");
    let request = upstream.requests().pop().unwrap();
    assert_eq!(request.header("metadata-flavor"), Some("Google"));
    for (reply, is_refusal, expected) in [
        (
            Reply::html(404),
            true,
            "has no service account for this machine (status 404)",
        ),
        (
            Reply::html(403),
            true,
            "has no service account for this machine (status 403)",
        ),
        (Reply::html(503), false, "returned status 503"),
        (Reply::html(200), false, "returned a body that is not JSON"),
        (Reply::reset(), false, "cannot be reached"),
    ] {
        upstream.push_for_tokens(reply);
        let error = ask(&machine, TIMEOUT).await.unwrap_err();
        assert_eq!(error.is_refusal, is_refusal, "{error:?}");
        let start = format!("the metadata server at {} {expected}", upstream.address());
        assert!(error.detail.starts_with(&start), "{error:?}");
    }
    assert!(Metadata::new("not a host").is_err());
}
