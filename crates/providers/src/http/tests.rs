use secrecy::SecretString;
use tollgate_testkit::upstream::{At, FakeUpstream, How, Reply, Writes};
use tollgate_upstream::UpstreamCause;

use super::*;

#[test]
fn base_urls() {
    for (text, expected) in [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        (" http://127.0.0.1:8000/v1/ ", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        (
            "https://a.example/openai/v1?api-version=preview",
            "https://a.example/openai/v1?api-version=preview",
        ),
        ("HTTP://host/", "http://host"),
    ] {
        assert_eq!(BaseUrl::parse(text).unwrap().to_string(), expected);
    }
    for text in [
        "",
        "host",
        "host/v1",
        "ftp://host/v1",
        "http://",
        "http://user@host",
        "http://h/#x",
        "http://a b/",
    ] {
        assert!(BaseUrl::parse(text).is_err(), "{text}");
    }
}

#[test]
fn local_addresses() {
    for (text, expected) in [
        ("http://localhost:1/v1", true),
        ("http://127.0.0.7/v1", true),
        ("http://[::1]/v1", true),
        ("http://10.0.0.1/v1", false),
        ("http://localhost.example/v1", false),
    ] {
        assert_eq!(BaseUrl::parse(text).unwrap().is_local(), expected, "{text}");
    }
}

#[test]
fn paths_are_joined_and_queries_repeated() {
    for (base, expected) in [
        ("http://host", "http://host/models"),
        ("http://host/a/b/", "http://host/a/b/models"),
        ("http://host/a?v=1&w=2", "http://host/a/models?v=1&w=2"),
    ] {
        let endpoint = Endpoint::new(&BaseUrl::parse(base).unwrap(), "/models", &[]).unwrap();
        assert_eq!(endpoint.uri.to_string(), expected);
    }
}

#[test]
fn a_later_credential_replaces_an_earlier_one() {
    let base = BaseUrl::parse("https://host").unwrap();
    let [one, two] = ["one", "two"].map(|key| Credential::header("x-key", &SecretString::from(key)).unwrap());
    let endpoint = Endpoint::new(&base, "/x", &[one, two]).unwrap();
    assert_eq!(endpoint.headers["x-key"], "two");
    assert!(endpoint.headers["x-key"].is_sensitive());
    assert!(
        !endpoint.headers.contains_key("host"),
        "HTTP/2 has no such header"
    );
}

async fn models(reply: Reply, timeouts: Timeouts, limit: usize) -> Result<Bytes, UpstreamError> {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_models(reply);
    let http = HttpClient::new(HttpSettings::default());
    let base = BaseUrl::parse(&upstream.base_url()).unwrap();
    let endpoint = Endpoint::new(&base, "/models", &[]).unwrap();
    http.get(&endpoint, timeouts).await?.whole(limit).await
}

#[tokio::test]
async fn body_limit_holds_for_every_framing() {
    use tollgate_testkit::upstream::Framing;
    let timeouts = Timeouts::brief(Duration::from_secs(20));
    for framing in [Framing::Chunked, Framing::ContentLength, Framing::UntilClose] {
        for length in [0, 1, 999, 1_000, 1_001] {
            let writes = Writes::Chunks {
                bytes: 300,
                pause: Duration::ZERO,
            };
            let body = vec![b'x'; length];
            let reply = Reply::body(200, "text/plain", body.clone())
                .framing(framing)
                .writes(writes);
            let result = models(reply, timeouts, 1_000).await;
            match result {
                Ok(read) => assert!(length <= 1_000 && read == body, "{framing:?} {length}"),
                Err(error) => {
                    assert!(length > 1_000, "{framing:?} {length}: {error}");
                    assert_eq!(error.cause, UpstreamCause::Protocol);
                }
            }
        }
    }
}

#[tokio::test]
async fn slow_bodies_are_read_and_silent_ones_time_out() {
    let drip = Writes::Chunks {
        bytes: 1,
        pause: Duration::from_millis(2),
    };
    let timeouts = Timeouts {
        headers: Duration::from_secs(20),
        idle: Duration::from_millis(400),
        resend: false,
    };
    let reply = Reply::body(200, "text/plain", "x".repeat(200)).writes(drip);
    assert_eq!(models(reply, timeouts, 1_000).await.unwrap().len(), 200);
    let reply = Reply::body(200, "text/plain", "hello").cut(At::Head, How::Hang);
    let error = models(reply, timeouts, 1_000).await.unwrap_err();
    assert_eq!(error.cause, UpstreamCause::Timeout);
}
