//! Tests of the PostgreSQL engine on a real server: `TEST_PG_URL`, or the one on this machine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "postgres/bench.rs"]
mod bench;
#[path = "postgres/database.rs"]
mod database;
#[path = "postgres/faults.rs"]
mod faults;
#[path = "postgres/lease.rs"]
mod lease;
#[path = "measure/usage.rs"]
mod measure_usage;
#[path = "postgres/nodes.rs"]
mod nodes;
#[path = "postgres/notifications.rs"]
mod notifications;
#[path = "postgres/schema.rs"]
mod schema;
#[path = "postgres/transfer.rs"]
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use tollgate_backends::postgres::{self, LeaseConfig};
use tollgate_storage::conformance::{BoxFuture, Factory};
use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use database::TestDatabase;

/// Conformance suite of the storage ports.
mod conformance {
    tollgate_storage::conformance_tests!(crate::run);
}

/// Ledger part of the conformance suite, on a node that leases the credits of every account.
mod leasing {
    tollgate_storage::ledger_conformance_tests!(crate::run_leasing);
}

fn run(case: impl FnOnce(Factory) -> BoxFuture<()>) {
    run_with(None, case);
}

fn run_leasing(case: impl FnOnce(Factory) -> BoxFuture<()>) {
    let dir = tempfile::tempdir().unwrap();
    // The clock does not advance, so that no hold of the suite expires.
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
    let mut leases = LeaseConfig::new(dir.path().join("leases"), Duration::from_secs(60), clock);
    leases.busy_calls = 1;
    run_with(Some(leases), case);
}

fn run_with(leases: Option<LeaseConfig>, case: impl FnOnce(Factory) -> BoxFuture<()>) {
    let database = TestDatabase::migrated();
    let mut config = database.config();
    config.leases = leases;
    database.block_on(async {
        let factory = Factory::new(move || {
            let config = config.clone();
            async move { postgres::open(config).await.unwrap() }
        });
        case(factory).await;
    });
}
