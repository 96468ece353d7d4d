//! Comparison of three nodes with a list of all admitted requests.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_storage::{Budget, Counters, Decision};
use tollgate_types::Clock;

use crate::fleet::{Fleet, account, admit_many, block_on, left};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const NODES: usize = 3;

/// Reference model: the time of each admitted amount, in microseconds, and the amount.
#[derive(Default)]
struct Oracle {
    events: Vec<(u64, u64)>,
}

impl Oracle {
    /// Returns the amount admitted in the last `span` microseconds.
    fn within(&self, span: u64, now: u64) -> u64 {
        let recent = self.events.iter().filter(|(at, _)| at + span > now);
        recent.map(|(_, amount)| amount).sum()
    }

    /// Returns the expected decision for a request, which is counted if it fits.
    fn admit(&mut self, limit: u64, now: u64) -> Decision {
        let allowed = self.within(MINUTE, now) < limit;
        let times: Vec<u64> = self
            .events
            .iter()
            .map(|(at, _)| *at)
            .filter(|at| at + MINUTE > now)
            .collect();
        let retry_after = match (allowed, limit) {
            (true, _) => 0,
            (false, 0) => MINUTE,
            // All but the youngest `limit` - 1 requests must leave.
            (false, _) => times[times.len() - limit as usize] + MINUTE - now,
        };
        if allowed {
            self.events.push((now, 1));
        }
        let last = if allowed { Some(&now) } else { times.last() };
        Decision {
            allowed,
            limit,
            remaining: limit.saturating_sub(self.within(MINUTE, now)),
            reset: Duration::from_micros(last.map_or(0, |last| last + MINUTE - now)),
            retry_after: Duration::from_micros(retry_after),
        }
    }
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
    ]
}

/// Checks a property on nodes that are shared by all cases; each case has a separate account.
fn check<T: std::fmt::Debug>(
    cases: u32,
    calls: impl Strategy<Value = T>,
    case: impl AsyncFn(&Fleet, u128, T) -> Result<(), TestCaseError>,
) {
    block_on(async {
        let fleet = Fleet::by_hand(NODES as u64).await;
        let account = std::cell::Cell::new(0);
        let mut runner = TestRunner::new(Config {
            cases,
            ..Config::default()
        });
        let handle = tokio::runtime::Handle::current();
        let result = tokio::task::block_in_place(|| {
            runner.run(&calls, |calls| {
                account.set(account.get() + 1);
                handle.block_on(case(&fleet, account.get(), calls))
            })
        });
        result.unwrap();
    });
}

/// Below 3,000 per minute, every decision of every node equals that of a list of all requests, even
/// if the limit changes.
#[test]
fn low_limits_are_exact_over_all_nodes() {
    let calls = vec((step(), 0..NODES, 0..7_u32), 0..100);
    check(48, calls, async |fleet, number, calls| {
        let mut oracle = Oracle::default();
        for (step, node, limit) in calls {
            fleet.clock.advance(Duration::from_micros(step));
            let expected = oracle.admit(limit.into(), fleet.clock.monotonic_micros());
            let decision = fleet.nodes[node]
                .admit(account(number), Budget::Work, limit)
                .await;
            prop_assert_eq!(decision.unwrap(), expected);
        }
        Ok(())
    });
}

/// With loans, and with limits on both sides of the threshold, no minute exceeds the limit. A
/// request is refused only if the last 62 seconds and the possible loans use it up.
#[test]
fn high_limits_are_never_exceeded() {
    let bursts = vec((step(), 0..NODES, 1..500_u32, 0..8_u8), 1..25);
    check(16, bursts, async |fleet, number, bursts| {
        let mut oracle = Oracle::default();
        for (step, node, count, kind) in bursts {
            fleet.clock.advance(Duration::from_micros(step));
            let limit = if kind == 0 { 2_999 } else { 3_000 };
            let now = fleet.clock.monotonic_micros();
            for _ in 0..count {
                let decision = fleet.nodes[node]
                    .admit(account(number), Budget::Work, limit)
                    .await;
                if decision.unwrap().allowed {
                    oracle.events.push((now, 1));
                    prop_assert!(oracle.within(MINUTE, now) <= limit.into());
                } else {
                    let lent = NODES as u64 * u64::from(limit) / 100;
                    prop_assert!(oracle.within(MINUTE + 2 * SECOND, now) + lent >= limit.into());
                }
            }
        }
        Ok(())
    });
}

/// A loan taken near the end of a second and used at the last moment counts for a minute from then.
#[test]
fn loans_count_from_their_last_moment() {
    block_on(async {
        let fleet = Fleet::by_hand(2).await;
        let [one, other] = [&fleet.nodes[0], &fleet.nodes[1]];
        fleet.clock.advance(Duration::from_millis(900));
        assert_eq!(admit_many(one, 3_000, 20).await, 20);
        fleet.clock.advance(Duration::from_micros(SECOND - 1));
        assert_eq!(admit_many(one, 3_000, 5).await, 5);
        fleet.clock.advance(Duration::from_micros(MINUTE - 1));
        let max = 3_000 - 5;
        assert!(left(other, 3_000, 1).await.0 <= max);
        assert!(admit_many(other, 3_000, 3_000).await <= max as u32);
    });
}

/// Largest loan that a node may have: tokens that the store has already counted.
#[derive(Clone, Copy, Default)]
struct MaxLoan {
    left: u64,
    ends: u64,
}

impl MaxLoan {
    /// Whether the loan covers the tokens. Subtracts covered tokens from the loan.
    fn covers(&mut self, tokens: u64, now: u64) -> bool {
        let covers = now < self.ends && tokens <= self.left;
        if covers {
            self.left -= tokens;
        }
        covers
    }
}

/// Tokens reserved at one node and corrected there, in any order: a reservation is admitted only if
/// it fits into the limit with all tokens of the last minute, or if a loan covers it. Corrections
/// may exceed the limit, because calls can use more tokens than they reserved.
#[test]
fn tokens_are_never_undercounted() {
    for limit in [1_000_u64, 5_000] {
        let max_loan = if limit >= 3_000 { limit / 100 } else { 0 };
        let calls = vec(
            (
                step(),
                0..NODES,
                any::<prop::sample::Index>(),
                0..3_u8,
                0..limit / 3,
            ),
            0..100,
        );
        check(32, calls, async |fleet, number, calls| {
            let mut oracle = Oracle::default();
            let mut loans = [MaxLoan::default(); NODES];
            let mut open: Vec<(usize, usize, u64)> = Vec::new();
            for (step, node, which, kind, tokens) in calls {
                fleet.clock.advance(Duration::from_micros(step));
                let now = fleet.clock.monotonic_micros();
                if kind == 0 && !open.is_empty() {
                    let (node, event, reserved) = open.swap_remove(which.index(open.len()));
                    let counters = &fleet.nodes[node];
                    counters.correct(account(number), reserved, tokens).await.unwrap();
                    // A peek also sends unreported changes, so that they apply to all nodes.
                    counters
                        .peek(account(number), Budget::Work, 1, limit)
                        .await
                        .unwrap();
                    oracle.events[event].1 = 0;
                    oracle.events.push((now, tokens));
                } else {
                    let decision = fleet.nodes[node].reserve(account(number), tokens, limit).await;
                    if decision.unwrap().allowed {
                        if oracle.within(MINUTE, now) + tokens <= limit {
                            let (left, ends) = (max_loan, now + SECOND);
                            loans[node] = MaxLoan { left, ends };
                        } else {
                            prop_assert!(loans[node].covers(tokens, now));
                        }
                        open.push((node, oracle.events.len(), tokens));
                        oracle.events.push((now, tokens));
                    }
                }
            }
            Ok(())
        });
    }
}
