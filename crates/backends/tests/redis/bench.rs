//! Duration of a decision with a loan and of one by the server. `make measure` runs these tests;
//! they print the durations and do not assert them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_backends::redis::{RedisConfig, RedisCounters};
use tollgate_storage::{Budget, Counters};
use tollgate_testkit::redis::{prefix, shared_url};

use crate::fleet::{LONG, account, block_on, node};

const CALLS: usize = 20_000;

async fn counters() -> Arc<RedisCounters> {
    let config = RedisConfig {
        prefix: prefix(),
        ..RedisConfig::new(shared_url(), 1)
    };
    let node = node(config);
    assert!(node.wait_until_shared(LONG).await, "the server is there");
    Arc::new(node)
}

/// Prints percentiles of the duration of a decision. Each of the concurrent callers uses a separate
/// account; all have the same limit.
#[expect(clippy::print_stdout, reason = "the figures are the result")]
async fn measure(what: &str, callers: usize, limit: u32) {
    let counters = counters().await;
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let counters = counters.clone();
        running.spawn(async move {
            let mut times = Vec::with_capacity(CALLS / callers);
            for _ in 0..CALLS / callers {
                let start = Instant::now();
                let decided = counters.admit(account(caller as u128), Budget::Work, limit).await;
                times.push(start.elapsed());
                decided.unwrap();
            }
            times
        });
    }
    let mut times: Vec<Duration> = running.join_all().await.concat();
    times.sort_unstable();
    let part = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{what}, {callers} at once: p50 {:?}, p90 {:?}, p99 {:?}, p99.9 {:?}; decided by the store at the end: {}",
        part(0.5),
        part(0.9),
        part(0.99),
        part(0.999),
        counters.is_shared()
    );
}

#[test]
#[ignore = "a measurement"]
fn bench_by_the_server() {
    for callers in [1, 8] {
        block_on(measure("one script", callers, 2_999));
    }
}

#[test]
#[ignore = "a measurement"]
fn bench_by_loans() {
    for callers in [1, 8] {
        block_on(measure("lent", callers, 100_000_000));
    }
}
