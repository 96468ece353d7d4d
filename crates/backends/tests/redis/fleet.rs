//! Several nodes that share a server.

use std::sync::Arc;
use std::time::Duration;

use tollgate_backends::redis::{self, RedisConfig, RedisCounters, TimeSource};
use tollgate_storage::{Budget, Counters, Decision};
use tollgate_testkit::redis::{prefix, shared_url};
use tollgate_types::clock::{ManualClock, SystemClock};
use tollgate_types::{AccountId, Timestamp};

/// Timeout that ends a hanging test. No step takes as long.
pub const LONG: Duration = Duration::from_secs(60);

/// Arbitrary time at the start of a second, in microseconds.
const START: i64 = 1_800_000_000_000_000;

/// Nodes on one clock, which only the test advances.
pub struct Fleet {
    pub clock: Arc<ManualClock>,
    pub nodes: Vec<Arc<RedisCounters>>,
}

impl Fleet {
    /// Creates this many nodes with a separate prefix on the shared server.
    pub async fn by_hand(count: u64) -> Fleet {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(START)));
        let prefix = prefix();
        let mut nodes = Vec::new();
        for node in 1..=count {
            let config = RedisConfig {
                prefix: prefix.clone(),
                decision_timeout: LONG,
                settle: Duration::ZERO,
                time: TimeSource::Local,
                ..RedisConfig::new(shared_url(), node)
            };
            let node = redis::open(config, clock.clone()).unwrap();
            assert!(node.wait_until_shared(LONG).await, "the server is there");
            nodes.push(Arc::new(node));
        }
        Fleet { clock, nodes }
    }
}

/// Opens a node that uses the machine's clock.
pub fn node(config: RedisConfig) -> RedisCounters {
    redis::open(config, Arc::new(SystemClock::default())).unwrap()
}

pub fn account(number: u128) -> AccountId {
    AccountId::from_u128(number)
}

pub async fn admit(node: &RedisCounters, limit: u32) -> Decision {
    node.admit(account(1), Budget::Work, limit).await.unwrap()
}

/// Sends `count` requests and returns the number of admitted ones.
pub async fn admit_many(node: &RedisCounters, limit: u32, count: usize) -> u32 {
    let mut admitted = 0;
    for _ in 0..count {
        admitted += u32::from(admit(node, limit).await.allowed);
    }
    admitted
}

/// Returns the remaining requests and tokens.
pub async fn left(node: &RedisCounters, rpm: u32, tpm: u64) -> (u64, u64) {
    let (requests, tokens) = node.peek(account(1), Budget::Work, rpm, tpm).await.unwrap();
    (requests.remaining, tokens.remaining)
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}
