//! Three nodes while everything around them fails: `cargo xtask torture` for as long as a test may take.

use std::time::Duration;

use tollgate_testkit::torture::{Torture, torture};

use crate::scene::BINARY;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torture_of_three_nodes() {
    torture(Torture {
        binary: BINARY.into(),
        seed: 1,
        length: Duration::from_secs(30),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn prove_torture_of_three_nodes() {
    torture(Torture {
        binary: BINARY.into(),
        seed: 2,
        length: Duration::from_secs(600),
    })
    .await;
}
