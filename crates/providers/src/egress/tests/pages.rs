//! Tests of page fetches from a server on loopback, which a rule allows. Names resolve to it, or to
//! forbidden addresses.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testkit::upstream::{At, FakeUpstream, Framing, Gate, How, Reply, Writes};
use tollgate_types::AccountId;
use tollgate_upstream::{FetchError, FetchedPage, MAX_PAGE_BYTES, MAX_PDF_BYTES, PageFetcher, PageSkipped};

use super::super::{Allowed, EgressClient, EgressSettings, PageClient, PageSettings, RobotsPolicy};
use super::fetching::{Names, redirect};
use crate::http::{HttpClient, HttpSettings};

const UNREACHABLE: PageSkipped = PageSkipped::Fetch(FetchError::Unreachable);

/// A server for several names, and a client of it.
struct Site {
    server: FakeUpstream,
    /// Server on another port.
    other: FakeUpstream,
    client: PageClient,
}

impl Site {
    async fn new() -> Self {
        Self::with(PageSettings::default(), EgressSettings::default()).await
    }

    async fn with(settings: PageSettings, egress: EgressSettings) -> Self {
        let server = FakeUpstream::start().await;
        let names = Names::of("a.example", &[&["127.0.0.1"]]);
        names.add("b.example", &[&["127.0.0.1"]]);
        names.add(
            "private.example",
            &[&["10.0.0.1", "127.0.0.2", "169.254.169.254", "::1"]],
        );
        names.add("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
        let other = FakeUpstream::start().await;
        let rule = |server: &FakeUpstream| {
            Allowed::parse(&format!("127.0.0.1:{}", server.address().port())).unwrap()
        };
        let egress = EgressSettings {
            allow: vec![rule(&server), rule(&other)],
            ..egress
        };
        let http = HttpClient::new(HttpSettings::default());
        let client = PageClient::new(EgressClient::new(egress, names, http), settings);
        server.set_file("/robots.txt", Reply::body(404, "text/plain", ""));
        server.set_file("/page", page("<p>Text"));
        Self {
            server,
            other,
            client,
        }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.server.address().port())
    }

    async fn fetch(&self, host: &str, path: &str) -> Result<FetchedPage, PageSkipped> {
        self.client.fetch(None, &self.url(host, path)).await
    }

    /// Scripts the reply of a path and fetches the path.
    async fn reply(&self, reply: Reply) -> Result<FetchedPage, PageSkipped> {
        self.server.set_file("/reply", reply);
        self.fetch("a.example", "/reply").await
    }

    /// Returns the number of requests of a path.
    fn count(&self, path: &str) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.path == path).count()
    }
}

fn page(html: &str) -> Reply {
    Reply::body(200, "text/html; charset=utf-8", html.to_owned())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn pages_are_returned_with_their_headers() {
    let site = Site::new().await;
    let reply = page("<p>Text")
        .header("etag", "\"v1\"")
        .header("last-modified", "Mon, 03 Nov 2025 10:00:00 GMT");
    site.server.set_file("/moved", redirect(301, "/reply?x=1#y"));
    site.server.set_file("/reply?x=1", reply.clone());
    site.server.set_file("/reply", reply);
    let fetched = site.fetch("a.example", "/moved").await.unwrap();
    let expected = FetchedPage {
        status: 200,
        final_url: site.url("a.example", "/reply?x=1"),
        media_type: "text/html".to_owned(),
        charset: Some("utf-8".to_owned()),
        etag: Some("\"v1\"".to_owned()),
        last_modified: Some("Mon, 03 Nov 2025 10:00:00 GMT".to_owned()),
        bytes: "<p>Text".into(),
    };
    assert_eq!(fetched, expected);
    for request in site.server.requests() {
        let agent = request.header("user-agent").unwrap();
        assert!(agent.starts_with("TollgateResearch/"), "{agent}");
        let mut names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept", "accept-encoding", "connection", "host", "user-agent"]
        );
    }
}

#[tokio::test]
async fn every_hop_is_checked() {
    let site = Site::new().await;
    let port = site.server.address().port();
    for url in [
        format!("http://127.0.0.2:{port}/page"),
        format!("http://[::1]:{port}/page"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("http://private.example:{port}/page"),
        "http://10.0.0.1/".to_owned(),
        "http://0.0.0.0/".to_owned(),
    ] {
        // The robots.txt is at the same address.
        let refused = site.client.fetch(None, &url).await;
        assert_eq!(refused, Err(PageSkipped::UnknownRules), "{url}");
        site.server.set_file("/away", redirect(302, &url));
        assert_eq!(
            site.fetch("a.example", "/away").await,
            Err(PageSkipped::UnknownRules),
            "{url}"
        );
    }
    for url in [
        format!("http://user@a.example:{port}/page"),
        format!("http://a.example:{port}\\@b.example/page"),
        "http://a.example:8080/page".to_owned(),
        "ftp://a.example/page".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let refused = site.client.fetch(None, &url).await;
        assert!(
            matches!(
                refused,
                Err(PageSkipped::Fetch(FetchError::NotAnAddress) | PageSkipped::UnknownRules)
            ),
            "{url}: {refused:?}"
        );
    }
    for location in [
        "http://user@a.example/",
        "file:///etc/passwd",
        "gopher://a.example/",
        "http:\\\\b.example",
    ] {
        site.server.set_file("/away", redirect(302, location));
        assert_eq!(
            site.fetch("a.example", "/away").await,
            Err(UNREACHABLE),
            "{location}"
        );
    }
    assert!(
        site.server
            .requests()
            .iter()
            .all(|request| request.path == "/away" || request.path == "/robots.txt")
    );
}

#[tokio::test]
async fn without_robots_the_same_checks_hold() {
    let settings = PageSettings {
        robots: RobotsPolicy::Ignore,
        ..PageSettings::default()
    };
    let site = Site::with(settings, EgressSettings::default()).await;
    assert!(site.fetch("a.example", "/page").await.is_ok());
    assert_eq!(site.count("/robots.txt"), 0);
    for host in ["127.0.0.2", "[::1]", "169.254.169.254", "private.example"] {
        assert_eq!(site.fetch(host, "/page").await, Err(UNREACHABLE), "{host}");
        site.server
            .set_file("/away", redirect(302, &site.url(host, "/page")));
        assert_eq!(site.fetch("a.example", "/away").await, Err(UNREACHABLE), "{host}");
    }
    assert!(site.fetch("rebinding.example", "/page").await.is_ok());
    assert_eq!(site.fetch("rebinding.example", "/page").await, Err(UNREACHABLE));
}

#[tokio::test]
async fn three_redirects_are_followed() {
    let site = Site::new().await;
    for (path, next) in [("/4", "/3"), ("/3", "/2"), ("/2", "/1"), ("/1", "/page")] {
        site.server.set_file(path, redirect(302, next));
    }
    assert!(site.fetch("a.example", "/3").await.is_ok());
    assert_eq!(site.fetch("a.example", "/4").await, Err(UNREACHABLE));
}

#[tokio::test]
async fn other_statuses_and_types_have_no_content() {
    let site = Site::new().await;
    for status in [204, 206, 302, 403, 404, 429, 500] {
        let fetched = site.reply(page("<p>Text").status(status)).await.unwrap();
        assert_eq!((fetched.status, fetched.bytes.len()), (status, 0));
    }
    for media_type in ["image/png", "application/zip", "video/mp4", "text/css"] {
        let refused = site.reply(Reply::body(200, media_type, "x")).await;
        assert_eq!(
            refused,
            Err(PageSkipped::Fetch(FetchError::WrongType)),
            "{media_type}"
        );
    }
    for reply in [
        Reply::raw("nonsense"),
        Reply::reset(),
        page("<p>Text").cut(At::End, How::Close),
        page("<p>Text").header("content-encoding", "br"),
        page("<p>Text").header("content-encoding", "gzip"),
    ] {
        assert_eq!(site.reply(reply.clone()).await, Err(UNREACHABLE), "{reply:?}");
    }
}

#[tokio::test]
async fn sizes_are_limited_before_and_after_decompression() {
    let site = Site::new().await;
    let too_large = Err(PageSkipped::Fetch(FetchError::TooLarge));
    let of = |size: u64| vec![b'a'; usize::try_from(size).unwrap()];
    for (media_type, max) in [("text/html", MAX_PAGE_BYTES), ("application/pdf", MAX_PDF_BYTES)] {
        for framing in [Framing::Chunked, Framing::ContentLength] {
            let body = |size: u64| Reply::body(200, media_type, of(size)).framing(framing);
            let fetched = site.reply(body(max)).await.unwrap();
            assert_eq!(fetched.bytes.len() as u64, max);
            assert_eq!(
                site.reply(body(max + 1)).await,
                too_large,
                "{media_type} {framing:?}"
            );
        }
        let packed =
            |size: u64| Reply::body(200, media_type, gzip(&of(size))).header("content-encoding", "gzip");
        let fetched = site.reply(packed(max)).await.unwrap();
        assert_eq!(fetched.bytes.len() as u64, max);
        assert_eq!(site.reply(packed(max + 1)).await, too_large, "{media_type}");
    }
    // A bomb of 200 MiB.
    let bomb = gzip(&of(200 << 20));
    assert!(bomb.len() < 1 << 20);
    let bomb = Reply::body(200, "text/html", bomb).header("content-encoding", "gzip");
    assert_eq!(site.reply(bomb).await, too_large);
    // A body without an end.
    let endless = Reply::body(200, "text/html", of(MAX_PAGE_BYTES + 1))
        .framing(Framing::Chunked)
        .cut(At::End, How::Hang);
    assert_eq!(site.reply(endless).await, too_large);
}

#[tokio::test]
async fn slow_pages_are_aborted() {
    let too_slow = Err(PageSkipped::Fetch(FetchError::TooSlow));
    let drip = |bytes: usize| {
        page(&"a".repeat(bytes)).writes(Writes::Chunks {
            bytes: 1,
            pause: Duration::from_millis(5),
        })
    };
    let settings = PageSettings {
        total: Duration::from_millis(300),
        ..PageSettings::default()
    };
    let site = Site::with(settings, EgressSettings::default()).await;
    assert_eq!(site.reply(drip(2_000)).await, too_slow);
    assert_eq!(site.reply(Reply::hang()).await, too_slow);
    let egress = EgressSettings {
        grace: Duration::from_millis(100),
        ..EgressSettings::default()
    };
    let site = Site::with(PageSettings::default(), egress).await;
    assert_eq!(site.reply(drip(2_000)).await, too_slow, "below the minimum speed");
}

#[tokio::test]
async fn rules_of_sites_are_obeyed() {
    for (status, robots, allowed) in [
        (200, "User-agent: *\nDisallow: /page", false),
        (200, "User-agent: *\nDisallow: /\nAllow: /page", true),
        (
            200,
            "User-agent: TollgateResearch\nDisallow: /\n\nUser-agent: *\nAllow: /",
            false,
        ),
        (200, "User-agent: Other\nDisallow: /", true),
        (200, "User-agent: *\nDisallow: /*ge$", false),
        (200, "", true),
        (200, "\0\0\u{feff}garbage", true),
        (400, "User-agent: *\nDisallow: /", true),
        (404, "", true),
        (429, "", true),
    ] {
        let site = Site::new().await;
        site.server
            .set_file("/robots.txt", Reply::body(status, "text/plain", robots));
        let expected = if allowed {
            Ok("<p>Text".into())
        } else {
            Err(PageSkipped::Disallowed)
        };
        for _ in 0..2 {
            let fetched = site.fetch("a.example", "/page").await.map(|page| page.bytes);
            assert_eq!(fetched, expected, "{status} {robots}");
        }
        assert_eq!(site.count("/robots.txt"), 1, "the rules are cached");
        assert_eq!(site.count("/page"), if allowed { 2 } else { 0 });
    }
}

#[tokio::test]
async fn sites_with_unknown_rules_are_not_fetched() {
    let huge = "User-agent: *\nDisallow: /x\n".repeat(100_000);
    let patterns = "User-agent: *\nDisallow: /x$\n".repeat(1_001);
    for reply in [
        Reply::body(500, "text/plain", ""),
        Reply::body(503, "text/plain", ""),
        Reply::reset(),
        redirect(302, "http://127.0.0.2/robots.txt"),
        redirect(302, "http://169.254.169.254/latest/meta-data/"),
        redirect(302, "/robots.txt"),
        Reply::body(200, "text/plain", huge),
        Reply::body(200, "text/plain", patterns),
    ] {
        let site = Site::new().await;
        site.server.set_file("/robots.txt", reply.clone());
        for _ in 0..2 {
            assert_eq!(
                site.fetch("a.example", "/page").await,
                Err(PageSkipped::UnknownRules),
                "{reply:.200?}"
            );
        }
        assert_eq!(site.count("/page"), 0);
    }
    // The rules may be elsewhere, on an allowed address.
    let site = Site::new().await;
    site.server.set_file("/robots.txt", redirect(301, "/rules"));
    site.server.set_file(
        "/rules",
        Reply::body(200, "text/plain", "User-agent: *\nDisallow: /page"),
    );
    assert_eq!(
        site.fetch("a.example", "/page").await,
        Err(PageSkipped::Disallowed)
    );
}

#[tokio::test]
async fn redirects_obey_the_rules_of_their_target() {
    let site = Site::new().await;
    let target = format!("http://b.example:{}/page", site.other.address().port());
    site.server.set_file("/away", redirect(302, &target));
    let robots = |path: &str| Reply::body(200, "text/plain", format!("User-agent: *\nDisallow: {path}"));
    site.other.set_file("/page", page("<p>Other"));
    site.other.set_file("/robots.txt", robots("/page"));
    let refused = site.fetch("a.example", "/away").await;
    assert_eq!(refused, Err(PageSkipped::Disallowed));
    assert_eq!(site.other.request_count(), 1);

    let site = Site::new().await;
    let target = format!("http://b.example:{}/page", site.other.address().port());
    site.server.set_file("/away", redirect(302, &target));
    site.other.set_file("/page", page("<p>Other"));
    site.other.set_file("/robots.txt", robots("/x"));
    assert_eq!(site.fetch("a.example", "/away").await.unwrap().bytes, "<p>Other");
}

#[tokio::test]
async fn crawl_delays_are_obeyed() {
    let settings = PageSettings {
        max_wait: Duration::from_secs(2),
        ..PageSettings::default()
    };
    let site = Site::with(settings, EgressSettings::default()).await;
    let robots = |delay: &str| Reply::body(200, "text/plain", format!("User-agent: *\nCrawl-delay: {delay}"));
    site.server.set_file("/robots.txt", robots("0.4"));
    let started = Instant::now();
    let fetched = join_all((0..3).map(|_| site.fetch("a.example", "/page"))).await;
    assert!(fetched.iter().all(Result::is_ok));
    assert!(
        started.elapsed() >= Duration::from_millis(800),
        "{:?}",
        started.elapsed()
    );
    // A delay beyond the maximum is a delay of ten seconds, for which no fetch waits here.
    site.server.set_file("/robots.txt", robots("86400"));
    assert!(site.fetch("b.example", "/page").await.is_ok());
    let busy = Err(PageSkipped::Fetch(FetchError::Busy));
    assert_eq!(site.fetch("b.example", "/page").await, busy);
}

#[tokio::test]
async fn hosts_are_limited() {
    let one = Some(AccountId::from_u128(1));
    let settings = PageSettings {
        max_wait: Duration::from_millis(500),
        ..PageSettings::default()
    };
    let site = Arc::new(Site::with(settings, EgressSettings::default()).await);
    assert!(site.fetch("a.example", "/page").await.is_ok());
    let gate = Gate::new();
    site.server.set_file("/held", page("<p>Text").hold_head(&gate));
    let url = site.url("a.example", "/held");
    let mut held = JoinSet::new();
    for _ in 0..2 {
        let (site, url) = (site.clone(), url.clone());
        held.spawn(async move { site.client.fetch(one, &url).await });
    }
    while site.count("/held") < 2 {
        tokio::task::yield_now().await;
    }
    let busy = Err(PageSkipped::Fetch(FetchError::Busy));
    assert_eq!(
        site.fetch("a.example", "/page").await,
        busy,
        "two connections of one host"
    );
    assert!(
        site.client
            .fetch(one, &site.url("b.example", "/page"))
            .await
            .is_ok(),
        "another host"
    );
    gate.open();
    assert!(held.join_all().await.iter().all(Result::is_ok));
    assert!(site.fetch("a.example", "/page").await.is_ok());
}

#[tokio::test]
async fn accounts_are_limited() {
    let [one, other] = [1, 2].map(|number| Some(AccountId::from_u128(number)));
    let settings = PageSettings {
        per_account: 1,
        max_wait: Duration::from_millis(500),
        ..PageSettings::default()
    };
    let site = Arc::new(Site::with(settings, EgressSettings::default()).await);
    let gate = Gate::new();
    site.server.set_file("/held", page("<p>Text").hold_head(&gate));
    let (task_site, url) = (site.clone(), site.url("a.example", "/held"));
    let mut held = JoinSet::new();
    held.spawn(async move { task_site.client.fetch(one, &url).await });
    while site.count("/held") < 1 {
        tokio::task::yield_now().await;
    }
    let url = site.url("b.example", "/page");
    let busy = Err(PageSkipped::Fetch(FetchError::Busy));
    assert_eq!(site.client.fetch(one, &url).await, busy);
    assert!(site.client.fetch(other, &url).await.is_ok());
    gate.open();
    assert!(held.join_all().await.iter().all(Result::is_ok));
    assert!(site.client.fetch(one, &url).await.is_ok());
}
