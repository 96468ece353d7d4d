//! Fault injection with three nodes: a run of `cargo xtask fault-injection` that is short enough
//! for a test.

use std::time::Duration;

use tollgate_testkit::fault_injection::{FaultInjection, run};

use crate::scene::BINARY;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_injection_of_three_nodes() {
    run(FaultInjection {
        binary: BINARY.into(),
        seed: 1,
        length: Duration::from_secs(30),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn prove_fault_injection_of_three_nodes() {
    run(FaultInjection {
        binary: BINARY.into(),
        seed: 2,
        length: Duration::from_secs(600),
    })
    .await;
}
