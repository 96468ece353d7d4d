//! Tests of shared counters on a real server: `TEST_REDIS_URL`, or the local server. Fault
//! injection tests start their own servers.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts tasks of its own"
)]

#[path = "redis/bench.rs"]
mod bench;
#[path = "redis/faults.rs"]
mod faults;
#[path = "redis/fleet.rs"]
mod fleet;
#[path = "redis/oracle.rs"]
mod oracle;

use std::sync::Arc;

use tollgate_storage::Counters;
use tollgate_storage::conformance::{BoxFuture, Nodes};

use fleet::{Fleet, block_on};

/// Conformance suite of all counters, run on two nodes.
mod conformance {
    tollgate_storage::counter_conformance_tests!(crate::run);
}

fn run(case: impl FnOnce(Nodes) -> BoxFuture<()>) {
    block_on(async {
        let fleet = Fleet::by_hand(2).await;
        let nodes = fleet.nodes.iter().map(|node| node.clone() as Arc<dyn Counters>);
        case(Nodes::new(fleet.clock.clone(), nodes.collect())).await;
    });
}
