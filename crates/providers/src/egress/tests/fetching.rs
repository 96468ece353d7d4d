//! Tests of fetches from a server on loopback, which a rule allows. Other addresses of this machine
//! are unreachable.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_testkit::upstream::{At, FakeUpstream, Framing, How, Reply, Writes};
use tollgate_upstream::{FetchError, FetchRequest, Fetched, Fetcher, MediaKind};

use super::super::{Allowed, EgressClient, EgressSettings, Resolve};
use crate::http::{HttpClient, HttpSettings};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg"];

/// Resolves each name to its scripted results in order, then repeats the last one. Records the
/// lookups.
#[derive(Default)]
pub(super) struct Names {
    answers: Mutex<HashMap<&'static str, Vec<&'static [&'static str]>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(super) fn of(name: &'static str, answers: &[&'static [&'static str]]) -> Arc<Self> {
        let names = Self::default();
        names.add(name, answers);
        Arc::new(names)
    }

    /// Scripts the results of another name.
    pub(super) fn add(&self, name: &'static str, answers: &[&'static [&'static str]]) {
        let answers = answers.iter().rev().copied().collect();
        self.answers.lock().unwrap().insert(name, answers);
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let left = answers.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        let answer = if left.len() > 1 {
            left.pop()
        } else {
            left.last().copied()
        };
        Ok(answer
            .unwrap_or_default()
            .iter()
            .map(|text| text.parse().unwrap())
            .collect())
    }
}

/// A server, and a client that may reach it at 127.0.0.1 but at no other address of this machine.
struct Fixture {
    server: FakeUpstream,
    settings: EgressSettings,
    names: Arc<Names>,
}

impl Fixture {
    async fn new() -> Self {
        let server = FakeUpstream::start().await;
        let rule = format!("127.0.0.1:{}", server.address().port());
        let settings = EgressSettings {
            allow: vec![Allowed::parse(&rule).unwrap()],
            ..EgressSettings::default()
        };
        Self {
            server,
            settings,
            names: Arc::default(),
        }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.server.address().port())
    }

    async fn fetch(&self, url: &str) -> Result<Fetched, FetchError> {
        self.fetch_within(url, u64::MAX).await
    }

    async fn fetch_within(&self, url: &str, max_bytes: u64) -> Result<Fetched, FetchError> {
        let http = HttpClient::new(HttpSettings::default());
        let client = EgressClient::new(self.settings.clone(), self.names.clone(), http);
        let request = FetchRequest {
            url,
            account: None,
            kind: MediaKind::Image,
            max_bytes,
            media_types: IMAGE_TYPES,
        };
        client.fetch(&request).await
    }

    /// Scripts the reply of a path and fetches the path.
    async fn reply(&self, reply: Reply) -> Result<Fetched, FetchError> {
        self.server.set_file("/pic", reply);
        self.fetch(&self.url("127.0.0.1", "/pic")).await
    }
}

fn png() -> Reply {
    Reply::body(200, "image/png", PNG)
}

pub(super) fn redirect(status: u16, location: &str) -> Reply {
    Reply::body(status, "text/plain", "there").header("location", location)
}

#[tokio::test]
async fn fetches_send_no_credentials() {
    let fixture = Fixture::new().await;
    fixture.server.set_file("/pic", png());
    let fetched = fixture
        .fetch(&fixture.url("127.0.0.1", "/pic?size=1#x"))
        .await
        .unwrap();
    assert_eq!((&*fetched.bytes, fetched.media_type), (PNG, "image/png"));
    let [request] = &*fixture.server.requests() else {
        panic!("one request")
    };
    assert_eq!(request.path, "/pic?size=1");
    let mut names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["accept", "accept-encoding", "connection", "host", "user-agent"]
    );
    assert_eq!(request.header("accept"), Some("image/png, image/jpeg"));
}

#[tokio::test]
async fn hosts_are_dialled_only_at_allowed_addresses() {
    let mut fixture = Fixture::new().await;
    fixture.server.set_file("/pic", png());
    for host in [
        "127.0.0.2",
        "127.1.1.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.2]",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let refused = fixture.fetch(&fixture.url(host, "/pic")).await;
        assert_eq!(refused, Err(FetchError::Unreachable), "{host}");
    }
    // The rule does not contain port 80 of the same machine.
    assert_eq!(
        fixture.fetch("http://127.0.0.1/pic").await,
        Err(FetchError::Unreachable)
    );
    // A port that no rule contains is rejected before a DNS lookup.
    assert_eq!(
        fixture.fetch("http://example.com:8080/pic").await,
        Err(FetchError::NotAnAddress)
    );
    assert_eq!(fixture.server.connection_count(), 0);
    // The same address in another spelling.
    assert!(fixture.fetch(&fixture.url("0x7f.1", "/pic")).await.is_ok());
    assert!(
        fixture
            .fetch(&fixture.url("[::ffff:127.0.0.1]", "/pic"))
            .await
            .is_ok()
    );

    fixture.names = Names::of("media.example", &[&["10.0.0.1", "::1", "127.0.0.2"]]);
    let url = fixture.url("media.example", "/pic");
    assert_eq!(fixture.fetch(&url).await, Err(FetchError::Unreachable));
    fixture.names = Names::of("media.example", &[&["10.0.0.1", "127.0.0.1"]]);
    assert!(
        fixture.fetch(&url).await.is_ok(),
        "one of several addresses may be dialled"
    );
    fixture.names = Names::of("media.example", &[&[]]);
    assert_eq!(fixture.fetch(&url).await, Err(FetchError::Unreachable));
    assert_eq!(
        fixture.fetch(&fixture.url("unknown.example", "/pic")).await,
        Err(FetchError::Unreachable)
    );
}

#[tokio::test]
async fn dns_rebinding_has_no_effect() {
    let mut fixture = Fixture::new().await;
    fixture.server.set_file("/pic", png());
    fixture.names = Names::of("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let url = fixture.url("rebinding.example", "/pic");
    assert!(fixture.fetch(&url).await.is_ok());
    assert_eq!(
        *fixture.names.asked.lock().unwrap(),
        ["rebinding.example"],
        "it is asked once"
    );
    assert_eq!(
        fixture.fetch(&url).await,
        Err(FetchError::Unreachable),
        "and its second answer is looked at"
    );

    // The rules also apply within one fetch: each hop resolves the host and checks its addresses
    // again.
    fixture.names = Names::of("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
    fixture.server.set_file("/away", redirect(302, "/pic"));
    let before = fixture.server.request_count();
    let refused = fixture.fetch(&fixture.url("rebinding.example", "/away")).await;
    assert_eq!(refused, Err(FetchError::Unreachable));
    assert_eq!(fixture.server.request_count(), before + 1);
}

#[tokio::test]
async fn redirects_are_followed_to_allowed_addresses() {
    let fixture = Fixture::new().await;
    fixture.server.set_file("/pic", png());
    for status in [301, 302, 303, 307, 308] {
        assert!(
            fixture.reply_then_pic(redirect(status, "/pic")).await.is_ok(),
            "{status}"
        );
    }
    let port = fixture.server.address().port();
    let private = [
        format!("http://127.0.0.2:{port}/pic"),
        format!("http://[::1]:{port}/pic"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        format!("http://user@127.0.0.1:{port}/pic"),
        "file:///etc/passwd".to_owned(),
        String::new(),
    ];
    for location in private {
        let before = fixture.server.request_count();
        let refused = fixture.reply_then_pic(redirect(302, &location)).await;
        assert_eq!(refused, Err(FetchError::Unreachable), "{location}");
        let asked = fixture.server.request_count() - before;
        // An empty location redirects to the same URL.
        assert_eq!(asked, if location.is_empty() { 4 } else { 1 }, "{location}");
    }
    assert_eq!(
        fixture
            .reply_then_pic(Reply::body(302, "text/plain", "nowhere"))
            .await,
        Err(FetchError::Unreachable)
    );
}

impl Fixture {
    async fn reply_then_pic(&self, first: Reply) -> Result<Fetched, FetchError> {
        self.server.set_file("/first", first);
        self.fetch(&self.url("127.0.0.1", "/first")).await
    }
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    let fixture = Fixture::new().await;
    fixture.server.set_file("/pic", png());
    for (path, next) in [("/4", "/3"), ("/3", "/2"), ("/2", "/1"), ("/1", "/pic")] {
        fixture.server.set_file(path, redirect(302, next));
    }
    assert!(fixture.fetch(&fixture.url("127.0.0.1", "/3")).await.is_ok());
    assert_eq!(
        fixture.fetch(&fixture.url("127.0.0.1", "/4")).await,
        Err(FetchError::Unreachable)
    );
}

#[tokio::test]
async fn body_limit_holds_for_every_framing() {
    let fixture = Fixture::new().await;
    for framing in [Framing::Chunked, Framing::ContentLength, Framing::UntilClose] {
        fixture.server.set_file("/pic", png().framing(framing));
        let url = fixture.url("127.0.0.1", "/pic");
        let length = PNG.len() as u64;
        assert!(fixture.fetch_within(&url, length).await.is_ok(), "{framing:?}");
        assert_eq!(
            fixture.fetch_within(&url, length - 1).await,
            Err(FetchError::TooLarge),
            "{framing:?}"
        );
    }
    // Bytes beyond the announced length are ignored; fewer bytes are an error.
    let lying = |length: usize| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: {length}\r\n\r\n");
        Reply::raw([head.as_bytes(), PNG].concat())
    };
    assert_eq!(fixture.reply(lying(9)).await.unwrap().bytes, PNG[..9]);
    assert_eq!(fixture.reply(lying(1_000)).await, Err(FetchError::Unreachable));
    assert_eq!(
        fixture.reply(lying(30 << 20)).await,
        Err(FetchError::TooLarge),
        "by its announcement"
    );
    // The maximum size of any image is 20 MiB, regardless of the caller's limit.
    let mut large = PNG.to_vec();
    large.resize(20 << 20, 0);
    let large = |extra: usize| {
        let mut body = large.clone();
        body.resize(body.len() + extra, 0);
        Reply::body(200, "image/png", body).framing(Framing::Chunked)
    };
    assert_eq!(fixture.reply(large(0)).await.unwrap().bytes.len(), 20 << 20);
    assert_eq!(fixture.reply(large(1)).await, Err(FetchError::TooLarge));
}

#[tokio::test]
async fn bytes_must_match_their_media_type() {
    let fixture = Fixture::new().await;
    let typed = |media_type: &str, body: &'static [u8]| Reply::body(200, media_type, body);
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0 and so on";
    for (reply, expected) in [
        (typed("image/png; x=y", PNG), Ok("image/png")),
        (typed("IMAGE/PNG", PNG), Ok("image/png")),
        (typed("image/jpg", JPEG), Ok("image/jpeg")),
        (typed("application/octet-stream", JPEG), Ok("image/jpeg")),
        (typed("", PNG), Ok("image/png")),
        (typed("image/png", JPEG), Err(FetchError::WrongType)),
        (typed("image/png", b"<html>hello"), Err(FetchError::WrongType)),
        (typed("image/png", b""), Err(FetchError::WrongType)),
        (typed("text/html", PNG), Err(FetchError::WrongType)),
        (
            typed("image/gif", b"GIF89a and so on"),
            Err(FetchError::WrongType),
        ),
        (typed("image/svg+xml", b"<svg/>"), Err(FetchError::WrongType)),
        (
            typed("application/octet-stream", b"root:x:0:0"),
            Err(FetchError::WrongType),
        ),
    ] {
        let found = fixture
            .reply(reply.clone())
            .await
            .map(|fetched| fetched.media_type);
        assert_eq!(found, expected, "{reply:?}");
    }
}

#[tokio::test]
async fn answers_without_a_usable_body_are_refused() {
    let fixture = Fixture::new().await;
    for reply in [
        png().status(404),
        png().status(500),
        png().status(206),
        png().status(204),
        png().gzip(),
        Reply::raw("nonsense"),
        Reply::raw("HTTP/1.1 200 OK\r\n"),
        Reply::reset(),
        png().cut(At::End, How::Close),
    ] {
        assert_eq!(
            fixture.reply(reply.clone()).await,
            Err(FetchError::Unreachable),
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn slow_bodies_are_aborted() {
    let mut fixture = Fixture::new().await;
    fixture.settings.headers = Duration::from_millis(300);
    assert_eq!(
        fixture.reply(Reply::hang()).await,
        Err(FetchError::TooSlow),
        "no headers"
    );

    fixture.settings.headers = EgressSettings::default().headers;
    fixture.settings.grace = Duration::from_millis(100);
    let silent = png().cut(At::Head, How::Hang);
    assert_eq!(fixture.reply(silent).await, Err(FetchError::TooSlow), "no body");
    // Single bytes are too slow: at this rate, the fetch would take minutes.
    let drip = |bytes: usize| {
        let mut body = PNG.to_vec();
        body.resize(bytes, 0);
        Reply::body(200, "image/png", body).writes(Writes::Chunks {
            bytes: 1,
            pause: Duration::from_millis(5),
        })
    };
    assert_eq!(
        fixture.reply(drip(2_000)).await,
        Err(FetchError::TooSlow),
        "a drip"
    );
    fixture.settings.min_bytes_per_second = 1;
    assert!(fixture.reply(drip(40)).await.is_ok(), "slow, but fast enough");

    fixture.settings.grace = EgressSettings::default().grace;
    fixture.settings.total = Duration::from_millis(300);
    assert_eq!(
        fixture.reply(drip(2_000)).await,
        Err(FetchError::TooSlow),
        "all in all"
    );
}

#[tokio::test]
async fn error_texts_for_callers_hide_the_network() {
    for error in [
        FetchError::NotAnAddress,
        FetchError::Unreachable,
        FetchError::TooLarge,
        FetchError::TooSlow,
        FetchError::WrongType,
        FetchError::Busy,
    ] {
        let text = error.to_string();
        assert!(
            !text.contains("127.") && !text.contains("refused") && !text.contains("private"),
            "{text}"
        );
    }
}
