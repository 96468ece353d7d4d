use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, advance};
use tollgate_upstream::PageSkipped;

use super::{FAILURE_LIFETIME, LIFETIME, MAX_CACHED_BYTES, MAX_RULES_BYTES, MAX_SITES, Robots, Rules, judge};

fn delay(file: &str) -> Result<Duration, PageSkipped> {
    judge(file.as_bytes(), "/a/page?x=1")
}

#[test]
fn rules_and_delays_are_read() {
    let seconds = |seconds| Ok(Duration::from_secs(seconds));
    for (file, expected) in [
        ("", seconds(0)),
        ("User-agent: *\nCrawl-delay: 3", seconds(3)),
        ("User-agent: *\nCrawl-delay: 1e30", seconds(10)),
        ("User-agent: *\nCrawl-delay: inf", seconds(10)),
        ("User-agent: *\nCrawl-delay: -1", seconds(0)),
        ("User-agent: *\nCrawl-delay: NaN", seconds(0)),
        (
            "User-agent: tollgateresearch\nCrawl-delay: 2\nUser-agent: *\nCrawl-delay: 5",
            seconds(2),
        ),
        ("User-agent: *\nDisallow: /a/", Err(PageSkipped::Disallowed)),
        ("User-agent: *\nDisallow: /*?x=", Err(PageSkipped::Disallowed)),
        ("User-agent: *\nDisallow: /a/\nAllow: /a/page", seconds(0)),
        ("User-agent: *\nDisallow: /b", seconds(0)),
    ] {
        assert_eq!(delay(file), expected, "{file}");
    }
    let many = "User-agent: *\nDisallow: /x*y$\n".repeat(1_001);
    assert_eq!(delay(&many), Err(PageSkipped::UnknownRules));
}

#[tokio::test(start_paused = true)]
async fn rules_expire() {
    let robots = Robots::default();
    let is_cached = |origin: &str| robots.site(origin).rules.get().is_some();
    robots.site("https://a.example").rules.set(Rules::None).unwrap();
    robots
        .site("https://b.example")
        .rules
        .set(Rules::Unknown)
        .unwrap();
    let second = Duration::from_secs(1);
    advance(FAILURE_LIFETIME - second).await;
    assert!(is_cached("https://a.example") && is_cached("https://b.example"));
    advance(second).await;
    assert!(is_cached("https://a.example") && !is_cached("https://b.example"));
    advance(LIFETIME - FAILURE_LIFETIME - second).await;
    assert!(is_cached("https://a.example"));
    advance(second).await;
    assert!(!is_cached("https://a.example"));
}

#[tokio::test(start_paused = true)]
async fn cache_is_bounded() {
    let robots = Robots::default();
    let count = || robots.sites.lock().unwrap().len();
    for number in 0..=MAX_SITES {
        robots.site(&format!("https://{number}.example"));
        assert!(count() <= MAX_SITES);
    }
    let file = Bytes::from(vec![b' '; MAX_RULES_BYTES]);
    for number in 0..100 {
        advance(Duration::from_millis(1)).await;
        let site = robots.site(&format!("https://{number}.large.example"));
        site.rules.set(Rules::File(file.clone())).unwrap();
    }
    robots.site("https://last.example");
    let sites = robots.sites.lock().unwrap();
    assert!(sites.values().map(|site| site.bytes()).sum::<usize>() <= MAX_CACHED_BYTES);
    assert!(sites.contains_key("https://last.example"));
}

#[tokio::test(start_paused = true)]
async fn requests_take_turns() {
    let robots = Robots::default();
    let site = robots.site("https://a.example");
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let limit = now + second * 5;
    assert_eq!(site.reserve(Duration::ZERO, now), Ok(now));
    assert_eq!(site.reserve(second * 3, limit), Ok(now));
    assert_eq!(site.reserve(second * 3, limit), Ok(now + second * 3));
    assert!(site.reserve(second * 3, limit).is_err());
    advance(second * 20).await;
    assert_eq!(site.reserve(second, limit + second * 20), Ok(now + second * 20));
}
