//! Tests of failures of the services.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::upstream::{At, How, Reply, refusing_base_url};
use tollgate_upstream::UpstreamErrorKind::{Credentials, RateLimited, Rejected, Unavailable};
use tollgate_upstream::{UpstreamCause, UpstreamErrorKind};

use super::requests::nothing_found;
use super::{Fixture, KEY, KINDS, backend, context, query};

fn json_reply(status: u16, body: &serde_json::Value) -> Reply {
    Reply::body(status, "application/json", body.to_string())
}

/// Each case: kinds, reply, kind of the error, and a part of its text for the operator.
#[tokio::test]
async fn failures_of_services_are_errors_of_the_right_kind() {
    let any = "";
    let key_error = json!({"detail": {"error": format!("Unauthorized: invalid API key {KEY}.")}});
    let wiki_error = |code: &str| json_reply(200, &json!({"error": {"code": code, "info": "x"}}));
    let unresponsive =
        json!({"results": [], "unresponsive_engines": [["google cse", "CAPTCHA"], ["brave", "timeout"]]});
    let cases: Vec<(&str, Reply, UpstreamErrorKind, &str)> = vec![
        (any, json_reply(401, &key_error), Credentials, "401"),
        (
            any,
            json_reply(402, &json!({"error": "no credits"})),
            Credentials,
            "402",
        ),
        (
            any,
            json_reply(429, &json!({})).header("retry-after", "7"),
            RateLimited,
            "429",
        ),
        (any, json_reply(400, &json!({"error": "bad"})), Rejected, "400"),
        (any, json_reply(404, &json!({})), Unavailable, "404"),
        (any, json_reply(500, &json!({})), Unavailable, "500"),
        (any, Reply::html(502), Unavailable, "502"),
        (any, Reply::html(503), Unavailable, "503"),
        (
            any,
            Reply::body(301, "text/plain", "").header("location", "http://127.0.0.1:1/"),
            Unavailable,
            "set base_url to the final address",
        ),
        (
            any,
            Reply::html(200),
            Unavailable,
            "text/html instead of JSON: check base_url",
        ),
        (
            any,
            Reply::body(200, "application/json", ""),
            Unavailable,
            "not valid JSON",
        ),
        (
            any,
            Reply::body(200, "application/json", "{\"results\": ["),
            Unavailable,
            "not valid JSON",
        ),
        (
            any,
            json_reply(200, &json!({"hello": "world"})),
            Unavailable,
            "the response",
        ),
        (any, json_reply(200, &json!([])), Unavailable, "the response"),
        (
            any,
            json_reply(200, &json!({"results": []})).gzip(),
            Unavailable,
            "compressed",
        ),
        (any, Reply::reset(), Unavailable, ""),
        (
            any,
            json_reply(200, &json!({"results": []})).cut(At::Bytes(5), How::Close),
            Unavailable,
            "",
        ),
        (
            any,
            Reply::body(200, "application/json", vec![b' '; (16 << 20) + 1]),
            Unavailable,
            "exceeds",
        ),
        (
            "searxng",
            Reply::html(403),
            Unavailable,
            "add `json` to `search.formats`",
        ),
        ("searxng", Reply::html(429), RateLimited, "429"),
        (
            "searxng",
            json_reply(200, &unresponsive),
            Unavailable,
            "no search engine of the server answered: google_cse, brave",
        ),
        (
            "brave",
            json_reply(
                422,
                &json!({"type": "ErrorResponse", "error": {"status": 422, "code": "SUBSCRIPTION_TOKEN_INVALID"}}),
            ),
            Credentials,
            "SUBSCRIPTION_TOKEN_INVALID",
        ),
        (
            "brave",
            json_reply(422, &json!({"error": {"code": "VALIDATION"}})),
            Rejected,
            "VALIDATION",
        ),
        (
            "brave",
            json_reply(429, &json!({"error": {"status": 429, "code": "RATE_LIMITED"}})),
            RateLimited,
            "RATE_LIMITED",
        ),
        (
            "tavily",
            json_reply(432, &key_error),
            Credentials,
            "the plan's limit",
        ),
        (
            "tavily",
            json_reply(433, &key_error),
            Credentials,
            "the plan's limit",
        ),
        (
            "exa",
            json_reply(403, &json!({"error": "x", "tag": "ACCESS_DENIED"})),
            Credentials,
            "403",
        ),
        (
            "serper",
            json_reply(403, &json!({"message": "Unauthorized.", "statusCode": 403})),
            Credentials,
            "403",
        ),
        (
            "serper",
            json_reply(400, &json!({"message": "Not enough credits", "statusCode": 400})),
            Credentials,
            "the account has no credits",
        ),
        (
            "mediawiki",
            wiki_error("ratelimited"),
            RateLimited,
            "code=ratelimited",
        ),
        (
            "mediawiki",
            wiki_error("readapidenied"),
            Credentials,
            "code=readapidenied",
        ),
        (
            "mediawiki",
            wiki_error("search-error"),
            Unavailable,
            "code=search-error",
        ),
        ("mediawiki", wiki_error("long pier"), Unavailable, "code="),
    ];
    for (only, reply, expected, part) in cases {
        for kind in KINDS.iter().filter(|kind| only.is_empty() || kind.name == only) {
            let fixture = Fixture::of(kind.name).await;
            fixture.reply(reply.clone());
            let error = fixture.search(&query("long pier")).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert_eq!(error.kind, expected, "{}: {shown}", kind.name);
            assert!(error.to_string().contains(part), "{}: {shown}", kind.name);
            assert!(
                !shown.contains("canary-4711") && !shown.contains("long pier"),
                "{shown}"
            );
            if part == "429" && only.is_empty() {
                assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
            }
        }
    }
}

#[tokio::test]
async fn a_service_that_stops_answering_times_out() {
    for reply in [
        Reply::hang(),
        Reply::body(200, "application/json", "{\"results\": []}").cut(At::Bytes(3), How::Hang),
    ] {
        let fixture = Fixture::with_timeout("exa", Duration::from_millis(200)).await;
        fixture.reply(reply);
        let error = fixture.search(&query("pier")).await.unwrap_err();
        assert_eq!(error.cause, UpstreamCause::Timeout, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_cannot_be_connected_to() {
    let down = refusing_base_url();
    let backend = backend("searxng", Some(&down), None, Duration::from_secs(20)).unwrap();
    let error = backend.search(&context(), &query("pier")).await.unwrap_err();
    assert_eq!((error.kind, error.cause), (Unavailable, UpstreamCause::Connect));
}

#[tokio::test]
async fn no_results_are_no_failure() {
    for kind in KINDS {
        let fixture = Fixture::of(kind.name).await;
        fixture.reply_json(&nothing_found(kind.name));
        assert_eq!(fixture.search(&query("pier")).await.unwrap(), [], "{}", kind.name);
    }
}
