//! Comparison of counters in memory with simple counters that store every event.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_backends::memory::MemoryCounters;
use tollgate_storage::conformance::{BoxFuture, Nodes};
use tollgate_storage::{Budget, Counters, Decision};
use tollgate_types::clock::ManualClock;
use tollgate_types::{AccountId, Clock, Timestamp};

/// Conformance suite of all counters.
mod conformance {
    tollgate_storage::counter_conformance_tests!(crate::run);
}

fn run(case: impl FnOnce(Nodes) -> BoxFuture<()>) {
    let bench = Bench::at(0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    runtime
        .unwrap()
        .block_on(case(Nodes::new(bench.clock, vec![Arc::new(bench.counters)])));
}

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Counters with a separate clock and one account.
struct Bench {
    clock: Arc<ManualClock>,
    counters: MemoryCounters,
}

impl Bench {
    fn at(start: u64) -> Bench {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(start.cast_signed())));
        let counters = MemoryCounters::new(clock.clone());
        Bench { clock, counters }
    }

    fn now(&self) -> u64 {
        self.clock.monotonic_micros()
    }

    fn advance(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    fn admit(&self, limit: u32) -> Decision {
        ready(self.counters.admit(account(1), Budget::Work, limit))
    }

    fn reserve(&self, tokens: u64, limit: u64) -> Decision {
        ready(self.counters.reserve(account(1), tokens, limit))
    }

    fn correct(&self, reserved: u64, used: u64) {
        ready(self.counters.correct(account(1), reserved, used));
    }

    fn peek(&self, rpm: u32, tpm: u64) -> (Decision, Decision) {
        ready(self.counters.peek(account(1), Budget::Work, rpm, tpm))
    }

    fn tokens(&self) -> u64 {
        u64::MAX - self.peek(1, u64::MAX).1.remaining
    }
}

fn account(number: u128) -> AccountId {
    AccountId::from_u128(number)
}

fn ready<T>(call: impl Future<Output = tollgate_storage::Result<T>>) -> T {
    call.now_or_never().unwrap().unwrap()
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Reference model: the time at which each event leaves the window, in microseconds, and its
/// amount.
#[derive(Default)]
struct Oracle {
    events: Vec<(u64, u64)>,
}

impl Oracle {
    fn total(&self, now: u64) -> u64 {
        let counted = self.events.iter().filter(|(leaves, _)| *leaves > now);
        counted.map(|(_, amount)| amount).sum()
    }

    /// Returns the expected decision for `wanted`, which is counted if `leaves` is given and it
    /// fits.
    fn decide(&mut self, wanted: u64, limit: u64, now: u64, leaves: Option<u64>) -> Decision {
        let allowed = self.total(now) + wanted <= limit;
        if let (true, Some(leaves)) = (allowed, leaves) {
            self.events.push((leaves, wanted));
        }
        let mut times: Vec<u64> = self
            .events
            .iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(leaves, _)| *leaves)
            .collect();
        times.retain(|leaves| *leaves > now);
        times.sort_unstable();
        let fits = times.iter().find(|time| self.total(**time) + wanted <= limit);
        Decision {
            allowed,
            limit,
            remaining: limit.saturating_sub(self.total(now)),
            reset: micros(times.last().map_or(0, |last| last - now)),
            retry_after: match fits {
                _ if allowed => Duration::ZERO,
                Some(time) => micros(time - now),
                None => micros(MINUTE),
            },
        }
    }
}

/// Returns the time at which an amount counted by the second leaves the window.
fn end_of_its_second(now: u64) -> u64 {
    (now / SECOND + 61) * SECOND
}

/// Generates time steps, including the edges of seconds and of the minute.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        4 => 1..SECOND,
        2 => (0..70_u64).prop_map(|seconds| seconds * SECOND),
        1 => Just(MINUTE - 1),
        1 => Just(MINUTE),
        1 => Just(MINUTE + SECOND),
        2 => 0..3 * MINUTE,
    ]
}

proptest! {
    /// Up to 10,000 per minute, every decision equals that of a list of all requests, even if the
    /// limit changes.
    #[test]
    fn logged_requests_are_exact(start in 0..200 * SECOND, calls in vec((step(), 0..7_u32), 0..200)) {
        let (bench, mut oracle) = (Bench::at(start), Oracle::default());
        for (step, limit) in calls {
            bench.advance(step);
            let now = bench.now();
            let peeked = oracle.decide(1, limit.into(), now, None);
            prop_assert_eq!(bench.peek(limit, 1).0, peeked);
            let expected = oracle.decide(1, limit.into(), now, Some(now + MINUTE));
            prop_assert_eq!(bench.admit(limit), expected);
        }
    }

    /// With limits on both sides of the threshold, no minute exceeds the limit, and a request that
    /// fits into 61 seconds is admitted.
    #[test]
    fn limits_may_cross_the_log_threshold(start in 0..200 * SECOND, calls in vec((step(), 0..5_u32, 0..4_u8), 0..200)) {
        let (bench, mut exact, mut coarse) = (Bench::at(start), Oracle::default(), Oracle::default());
        for (step, limit, high) in calls {
            bench.advance(step);
            let now = bench.now();
            if high == 0 {
                prop_assert!(bench.admit(10_001).allowed);
            } else {
                let allowed = bench.admit(limit).allowed;
                prop_assert!(!allowed || exact.total(now) < limit.into());
                prop_assert!(allowed || coarse.total(now) >= limit.into());
                if !allowed {
                    continue;
                }
            }
            exact.events.push((now + MINUTE, 1));
            coarse.events.push((end_of_its_second(now), 1));
        }
    }

    /// Tokens corrected in the order of their reservations are counted exactly, by the second.
    #[test]
    fn tokens_are_exact(
        start in 0..200 * SECOND,
        calls in vec((step(), 0..4_u8, 0..40_u64, 0..100_u64), 0..200),
    ) {
        let (bench, mut oracle) = (Bench::at(start), Oracle::default());
        let (mut open, mut next) = (Vec::new(), 0);
        for (step, kind, tokens, limit) in calls {
            bench.advance(step);
            let now = bench.now();
            if kind > 0 || next == open.len() {
                let expected = oracle.decide(tokens, limit, now, Some(end_of_its_second(now)));
                prop_assert_eq!(bench.reserve(tokens, limit), expected);
                if expected.allowed {
                    open.push((oracle.events.len() - 1, tokens));
                }
            } else {
                let (event, reserved) = open[next];
                next += 1;
                bench.correct(reserved, tokens);
                oracle.events[event].1 = 0;
                oracle.events.push((end_of_its_second(now), tokens));
            }
            prop_assert_eq!(bench.peek(1, limit).1, oracle.decide(1, limit, now, None));
        }
    }

    /// Calls may end in any order: the window never counts less than was reserved or used, and
    /// becomes empty.
    #[test]
    fn tokens_are_never_undercounted(
        start in 0..200 * SECOND,
        calls in vec((step(), any::<proptest::sample::Index>(), 0..3_u8, 0..40_u64), 0..200),
    ) {
        let (bench, mut oracle) = (Bench::at(start), Oracle::default());
        let mut open: Vec<(usize, u64)> = Vec::new();
        for (step, which, kind, tokens) in calls {
            bench.advance(step);
            let now = bench.now();
            if kind == 0 && !open.is_empty() {
                let (event, reserved) = open.swap_remove(which.index(open.len()));
                bench.correct(reserved, tokens);
                oracle.events[event].1 = 0;
                oracle.events.push((end_of_its_second(now), tokens));
            } else if bench.reserve(tokens, 100).allowed {
                prop_assert!(oracle.total(now) + tokens <= 100);
                oracle.events.push((end_of_its_second(now), tokens));
                open.push((oracle.events.len() - 1, tokens));
            }
            prop_assert!(bench.tokens() >= oracle.total(now));
        }
        bench.advance(MINUTE + SECOND);
        prop_assert_eq!(bench.tokens(), 0);
    }
}

#[test]
fn high_limits_count_requests_by_the_second() {
    let bench = Bench::at(SECOND / 2);
    for _ in 0..20_000 {
        assert!(bench.admit(20_000).allowed);
    }
    let refused = bench.admit(20_000);
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert_eq!(refused.retry_after, micros(61 * SECOND - SECOND / 2));
    assert_eq!(refused.reset, refused.retry_after);
    assert!(!bench.admit(1).allowed);
    bench.advance(61 * SECOND - SECOND / 2 - 1);
    assert!(!bench.admit(20_000).allowed);
    bench.advance(1);
    assert_eq!(bench.admit(20_000).remaining, 19_999);
}

#[test]
fn a_correction_may_exceed_the_limit_and_recovers() {
    let bench = Bench::at(0);
    assert!(bench.reserve(60, 100).allowed);
    bench.advance(10 * SECOND);
    bench.correct(60, 250);
    let (_, tokens) = bench.peek(1, 100);
    assert_eq!((tokens.allowed, tokens.remaining), (false, 0));
    assert_eq!(bench.tokens(), 250);
    let refused = bench.reserve(1, 100);
    assert_eq!(
        (refused.allowed, refused.retry_after),
        (false, micros(61 * SECOND))
    );
    bench.advance(61 * SECOND - 1);
    assert_eq!(bench.tokens(), 250);
    bench.advance(1);
    assert_eq!(bench.reserve(100, 100).remaining, 0);
}

#[test]
fn huge_numbers_saturate() {
    let bench = Bench::at(0);
    assert!(bench.reserve(u64::MAX, u64::MAX).allowed);
    assert!(!bench.reserve(1, u64::MAX).allowed);
    bench.correct(5, u64::MAX);
    assert_eq!(bench.tokens(), u64::MAX);
    bench.correct(u64::MAX, 0);
    bench.advance(MINUTE + SECOND);
    assert_eq!(bench.tokens(), 0);
}

#[test]
fn idle_accounts_are_forgotten() {
    let bench = Bench::at(0);
    for number in 0..10_000 {
        ready(bench.counters.admit(account(number), Budget::Work, 5));
        ready(bench.counters.reserve(account(number), 5, 5));
        ready(bench.counters.correct(account(number), 5, 1));
    }
    assert_eq!(bench.counters.len(), 10_000);
    bench.advance(2 * MINUTE);
    for number in 20_000..21_000 {
        ready(bench.counters.peek(account(number), Budget::Work, 5, 5));
        ready(bench.counters.admit(account(number), Budget::Control, 5));
    }
    assert_eq!(bench.counters.len(), 1_000);
}

#[test]
fn peeking_stores_no_account() {
    let bench = Bench::at(0);
    let (requests, tokens) = bench.peek(3, 4);
    assert_eq!((requests.remaining, tokens.remaining), (3, 4));
    assert!(requests.allowed && tokens.allowed && bench.counters.is_empty());
}
