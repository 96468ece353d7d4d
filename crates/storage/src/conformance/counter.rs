//! Cases for counters, in one process or shared by several nodes. Requests go to the nodes in turn;
//! the tokens of one call stay on one node, as in production.

use std::sync::Arc;
use std::time::Duration;

use tollgate_types::AccountId;
use tollgate_types::clock::ManualClock;

use crate::{Budget, Counters, Decision};

const MINUTE: Duration = Duration::from_secs(60);
/// Maximum excess over a minute of windows that count in slots instead of single requests.
const LONGER: Duration = Duration::from_secs(2);
const MICRO: Duration = Duration::from_micros(1);

/// Nodes with empty, shared windows on a manual clock, which starts at the beginning of a second.
pub struct Nodes {
    clock: Arc<ManualClock>,
    nodes: Vec<Arc<dyn Counters>>,
}

impl Nodes {
    /// Creates the value from the nodes under test, at least one, which share this clock.
    pub fn new(clock: Arc<ManualClock>, nodes: Vec<Arc<dyn Counters>>) -> Self {
        assert!(!nodes.is_empty(), "there is a node");
        Self { clock, nodes }
    }

    fn node(&self, turn: usize) -> &dyn Counters {
        &*self.nodes[turn % self.nodes.len()]
    }

    async fn admit(&self, turn: usize, limit: u32) -> Decision {
        self.node(turn)
            .admit(account(1), Budget::Work, limit)
            .await
            .unwrap()
    }

    async fn reserve(&self, tokens: u64, limit: u64) -> Decision {
        self.node(0).reserve(account(1), tokens, limit).await.unwrap()
    }

    async fn correct(&self, reserved: u64, used: u64) {
        self.node(0).correct(account(1), reserved, used).await.unwrap();
    }

    /// Returns the rest of both limits without counting.
    async fn left(&self, rpm: u32, tpm: u64) -> (u64, u64) {
        let looked = self.node(0).peek(account(1), Budget::Work, rpm, tpm).await;
        let (requests, tokens) = looked.unwrap();
        (requests.remaining, tokens.remaining)
    }
}

fn account(number: u128) -> AccountId {
    AccountId::from_u128(number)
}

/// Checks that a request counts for exactly one minute, to the microsecond, on every node.
pub async fn request_counts_for_a_minute(nodes: Nodes) {
    nodes.clock.advance(Duration::from_micros(17));
    let admitted = nodes.admit(0, 1).await;
    assert_eq!(
        (admitted.allowed, admitted.remaining, admitted.reset),
        (true, 0, MINUTE)
    );
    nodes.clock.advance(MINUTE - MICRO);
    let refused = nodes.admit(1, 1).await;
    assert_eq!((refused.allowed, refused.retry_after), (false, MICRO));
    nodes.clock.advance(MICRO);
    assert!(nodes.admit(2, 1).await.allowed);
}

/// Checks that a refusal returns the time until the same request fits: until the oldest request has
/// left the window.
pub async fn refusal_reports_when_it_fits(nodes: Nodes) {
    for turn in 0..3 {
        let admitted = nodes.admit(turn, 3).await;
        assert_eq!((admitted.limit, admitted.remaining), (3, 2 - turn as u64));
        nodes.clock.advance(Duration::from_secs(7));
    }
    let refused = nodes.admit(0, 3).await;
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert_eq!(refused.retry_after, MINUTE - Duration::from_secs(21));
    assert_eq!(refused.reset, MINUTE - Duration::from_secs(7));
    // A lower limit has to wait for more requests to leave.
    let refused = nodes.admit(1, 2).await;
    assert_eq!(refused.retry_after, MINUTE - Duration::from_secs(14));
    nodes.clock.advance(MINUTE - Duration::from_secs(14));
    assert!(nodes.admit(2, 2).await.allowed);
}

/// Checks that a limit of zero refuses everything and returns a wait of a minute.
pub async fn zero_limit_admits_nothing(nodes: Nodes) {
    let refused = nodes.admit(0, 0).await;
    assert_eq!(
        (refused.allowed, refused.remaining, refused.retry_after),
        (false, 0, MINUTE)
    );
    assert_eq!(refused.reset, Duration::ZERO);
    let refused = nodes.reserve(1, 0).await;
    assert_eq!((refused.allowed, refused.retry_after), (false, MINUTE));
}

/// Checks that a request above the limit never fits; one equal to the limit does.
pub async fn more_than_the_limit_never_fits(nodes: Nodes) {
    let refused = nodes.reserve(11, 10).await;
    assert_eq!(
        (refused.allowed, refused.remaining, refused.retry_after),
        (false, 10, MINUTE)
    );
    assert!(nodes.reserve(10, 10).await.allowed);
    assert!(!nodes.reserve(1, 10).await.allowed);
}

/// Checks that unused tokens of a call are available immediately to the next call at the same node.
pub async fn correction_frees_unused_tokens(nodes: Nodes) {
    for limit in [100, 1_000_000] {
        let unit = limit / 10;
        assert!(nodes.reserve(8 * unit, limit).await.allowed);
        assert!(!nodes.reserve(3 * unit, limit).await.allowed);
        nodes.correct(8 * unit, unit).await;
        let second = nodes.reserve(9 * unit, limit).await;
        assert_eq!((second.allowed, second.remaining), (true, 0));
        nodes.correct(9 * unit, 0).await;
        assert_eq!(nodes.left(1, limit).await, (1, 9 * unit));
        nodes.clock.advance(MINUTE + LONGER);
    }
}

/// Checks that a correction may exceed the limit; the window recovers within little more than a
/// minute.
pub async fn correction_may_exceed_the_limit(nodes: Nodes) {
    assert!(nodes.reserve(60, 100).await.allowed);
    nodes.clock.advance(Duration::from_secs(10));
    nodes.correct(60, 250).await;
    assert_eq!(nodes.left(1, 1_000).await, (1, 750));
    let refused = nodes.reserve(1, 100).await;
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert!(
        (MINUTE..=MINUTE + LONGER).contains(&refused.retry_after),
        "{refused:?}"
    );
    nodes.clock.advance(MINUTE - MICRO);
    assert!(!nodes.reserve(1, 100).await.allowed);
    nodes.clock.advance(MICRO + LONGER);
    assert_eq!(nodes.reserve(100, 100).await.remaining, 0);
}

/// Checks that a call that outlives the window releases nothing that it no longer holds.
pub async fn long_calls_release_their_reservation(nodes: Nodes) {
    assert!(nodes.reserve(100, 100).await.allowed);
    nodes.clock.advance(5 * MINUTE);
    assert!(nodes.reserve(70, 100).await.allowed);
    nodes.correct(100, 10).await;
    assert_eq!(nodes.left(1, 100).await, (1, 20));
    nodes.correct(70, 20).await;
    assert_eq!(nodes.left(1, 100).await, (1, 70));
}

/// Checks that accounts have separate windows, and so do the two budgets and the tokens of an
/// account.
pub async fn accounts_and_budgets_are_separate(nodes: Nodes) {
    for (number, budget) in [(1, Budget::Work), (1, Budget::Control), (2, Budget::Work)] {
        for expected in [true, false] {
            let decision = nodes.node(0).admit(account(number), budget, 1).await.unwrap();
            assert_eq!(decision.allowed, expected, "{number} {budget:?}");
        }
    }
    assert!(nodes.reserve(1, 1).await.allowed);
}

/// Checks that `peek` counts nothing.
pub async fn peeking_counts_nothing(nodes: Nodes) {
    for _ in 0..5 {
        assert_eq!(nodes.left(3, 4).await, (3, 4));
    }
    assert!(nodes.admit(0, 3).await.allowed);
    assert_eq!(nodes.left(3, 4).await, (2, 4));
}

/// Checks that maximum numbers saturate instead of overflowing.
pub async fn huge_numbers_saturate(nodes: Nodes) {
    assert!(nodes.reserve(u64::MAX, u64::MAX).await.allowed);
    assert!(!nodes.reserve(1, u64::MAX).await.allowed);
    nodes.correct(5, u64::MAX).await;
    assert!(!nodes.reserve(1, u64::MAX).await.allowed);
    nodes.correct(u64::MAX, 0).await;
    nodes.clock.advance(MINUTE + LONGER);
    assert!(nodes.reserve(u64::MAX, u64::MAX).await.allowed);
}

/// Checks that a high limit is never exceeded and almost fully usable, within a window of little
/// more than a minute.
pub async fn high_limit_is_enforced(nodes: Nodes) {
    const LIMIT: u32 = 6_000;
    for _ in 0..2 {
        let mut admitted = 0;
        for turn in 0..8_000 {
            if turn % 200 == 0 {
                nodes.clock.advance(Duration::from_millis(100));
            }
            admitted += u32::from(nodes.admit(turn, LIMIT).await.allowed);
        }
        assert!((LIMIT - LIMIT / 50..=LIMIT).contains(&admitted), "{admitted}");
        nodes.clock.advance(MINUTE - Duration::from_secs(5));
        assert!(!nodes.admit(0, LIMIT).await.allowed);
        nodes.clock.advance(Duration::from_secs(5) + LONGER);
    }
}

/// Checks that concurrent requests share one limit: a low limit is used exactly, a high limit
/// almost completely.
pub async fn concurrent_requests_share_one_limit(nodes: Nodes) {
    let nodes = Arc::new(nodes);
    for (limit, calls, min) in [(100, 50, 100), (6_000, 1_000, 5_880)] {
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..8 {
            let nodes = nodes.clone();
            callers.spawn(async move {
                let mut admitted = 0;
                for turn in 0..calls {
                    admitted += u32::from(nodes.admit(caller + turn, limit).await.allowed);
                }
                admitted
            });
        }
        let admitted = callers.join_all().await.iter().sum::<u32>();
        assert!((min..=limit).contains(&admitted), "{admitted} of {limit}");
        nodes.clock.advance(MINUTE + LONGER);
    }
}
