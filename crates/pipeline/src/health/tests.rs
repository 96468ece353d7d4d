use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use super::*;

fn candidate(name: &str) -> Candidate {
    Candidate {
        provider: name.into(),
        upstream_model: "m".into(),
        weight: None,
    }
}

fn health() -> (Arc<ManualClock>, Health) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_000_000_000)));
    (clock.clone(), Health::new(clock, Retries::default()))
}

fn broken() -> UpstreamError {
    UpstreamError::connect("refused")
}

#[test]
fn five_failures_in_a_row_open_the_breaker_and_one_success_closes_it() {
    let (clock, health) = health();
    let (one, other) = (candidate("one"), candidate("other"));
    for _ in 0..4 {
        health.failed(&one, &broken());
    }
    assert!(health.is_usable(&one));
    health.failed(&one, &broken());
    assert!(!health.is_usable(&one));
    assert!(health.is_usable(&other));
    clock.advance(Duration::from_secs(30));
    assert!(health.is_usable(&one), "a probe when the time is over");
    assert!(!health.is_usable(&one), "one probe only");
    clock.advance(Duration::from_secs(5));
    assert!(health.is_usable(&one), "another probe");
    health.succeeded(&one);
    assert!(health.is_usable(&one) && health.is_usable(&one));
}

#[test]
fn a_failed_probe_doubles_the_time() {
    let (clock, health) = health();
    let one = candidate("one");
    (0..5).for_each(|_| health.failed(&one, &broken()));
    clock.advance(Duration::from_secs(30));
    assert!(health.is_usable(&one));
    health.failed(&one, &broken());
    clock.advance(Duration::from_secs(59));
    assert!(!health.is_usable(&one));
    clock.advance(Duration::from_secs(1));
    assert!(health.is_usable(&one));
}

#[test]
fn half_of_twenty_calls_open_it() {
    let (_, health) = health();
    let one = candidate("one");
    for _ in 0..9 {
        health.failed(&one, &broken());
        health.succeeded(&one);
    }
    assert!(health.is_usable(&one));
    health.succeeded(&one);
    health.failed(&one, &broken());
    assert!(!health.is_usable(&one));
}

#[test]
fn a_rate_limit_cools_and_a_rejected_request_says_nothing() {
    let (clock, health) = health();
    let one = candidate("one");
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Status, "bad");
    (0..50).for_each(|_| health.failed(&one, &rejected));
    assert!(health.is_usable(&one));
    let mut limited = UpstreamError::new(UpstreamErrorKind::RateLimited, UpstreamCause::Status, "slow down");
    limited.retry_after = Some(Duration::from_secs(7));
    health.failed(&one, &limited);
    assert!(!health.is_usable(&one));
    clock.advance(Duration::from_secs(7));
    assert!(health.is_usable(&one));
}

#[test]
fn the_retry_budget_is_a_share_and_a_floor() {
    let (clock, health) = health();
    let one = candidate("one");
    let granted = |health: &Health| (0..1_000).filter(|_| health.may_retry(&one)).count();
    assert_eq!(granted(&health), 30);
    clock.advance(Duration::from_secs(11));
    (0..100).for_each(|_| health.succeeded(&one));
    assert_eq!(granted(&health), 50);
}
