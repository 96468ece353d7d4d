use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use super::*;

fn candidate(name: &str) -> Candidate {
    Candidate::new(name, "m", None)
}

const PLAIN: Shape = Shape { coarse: 1, fine: 10 };

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
        health.failed(&one, &broken(), PLAIN);
    }
    assert!(health.is_usable(&one));
    health.failed(&one, &broken(), PLAIN);
    assert!(!health.is_usable(&one));
    assert!(health.is_usable(&other));
    clock.advance(Duration::from_secs(30));
    assert!(health.is_usable(&one), "a probe when the time is over");
    assert!(!health.is_usable(&one), "one probe only");
    clock.advance(Duration::from_secs(5));
    assert!(health.is_usable(&one), "another probe");
    health.succeeded(&one, PLAIN);
    assert!(health.is_usable(&one) && health.is_usable(&one));
}

#[test]
fn a_failed_probe_doubles_the_time() {
    let (clock, health) = health();
    let one = candidate("one");
    (0..5).for_each(|_| health.failed(&one, &broken(), PLAIN));
    clock.advance(Duration::from_secs(30));
    assert!(health.is_usable(&one));
    health.failed(&one, &broken(), PLAIN);
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
        health.failed(&one, &broken(), PLAIN);
        health.succeeded(&one, PLAIN);
    }
    assert!(health.is_usable(&one));
    health.succeeded(&one, PLAIN);
    health.failed(&one, &broken(), PLAIN);
    assert!(!health.is_usable(&one));
}

#[test]
fn rate_limits_cool_down_and_rejections_are_ignored() {
    let (clock, health) = health();
    let one = candidate("one");
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Status, "bad");
    (0..50).for_each(|_| health.failed(&one, &rejected, PLAIN));
    assert!(health.is_usable(&one));
    let mut limited = UpstreamError::new(UpstreamErrorKind::RateLimited, UpstreamCause::Status, "slow down");
    limited.retry_after = Some(Duration::from_secs(7));
    health.failed(&one, &limited, PLAIN);
    assert!(!health.is_usable(&one));
    clock.advance(Duration::from_secs(7));
    assert!(health.is_usable(&one));
}

#[test]
fn the_retry_budget_is_a_share_with_a_minimum() {
    let (clock, health) = health();
    let one = candidate("one");
    let granted = |health: &Health| (0..1_000).filter(|_| health.may_retry(&one)).count();
    assert_eq!(granted(&health), 30);
    clock.advance(Duration::from_secs(11));
    (0..100).for_each(|_| health.succeeded(&one, PLAIN));
    assert_eq!(granted(&health), 50);
}

/// Records an error object that the upstream returned for a request of this shape.
fn report(health: &Health, one: &Candidate, coarse: u64, fine: u64) {
    let error = UpstreamError {
        status: Some(500),
        is_reported: true,
        ..UpstreamError::new(UpstreamErrorKind::Unavailable, UpstreamCause::Status, "")
    };
    health.failed(one, &error, Shape { coarse, fine });
}

#[test]
fn errors_of_one_request_shape_keep_the_breaker_closed() {
    let one = candidate("one");
    // Shapes of the reported errors after one success with a plain request, and whether the
    // upstream remains usable.
    let images: Vec<(u64, u64)> = (20..60).map(|size| (2, size)).collect();
    let plain = vec![(1, 10); 5];
    let several = vec![(2, 20), (3, 30), (4, 40), (2, 20), (3, 30), (4, 40), (2, 20)];
    for (reports, stays) in [(images, true), (plain, false), (several, false)] {
        let (_, health) = health();
        health.succeeded(&one, PLAIN);
        for (coarse, fine) in &reports {
            report(&health, &one, *coarse, *fine);
        }
        assert_eq!(health.is_usable(&one), stays, "{reports:?}");
    }
}

#[test]
fn an_upstream_without_answers_is_judged_by_several_request_shapes() {
    let (_, health) = health();
    let one = candidate("one");
    (0..50).for_each(|_| report(&health, &one, 2, 20));
    assert!(health.is_usable(&one));
    (0..7).for_each(|number| report(&health, &one, number % 3, 20));
    assert!(!health.is_usable(&one));
}
