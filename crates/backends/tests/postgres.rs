//! The PostgreSQL engine against a real server: `TEST_PG_URL`, or the one on this machine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "postgres/database.rs"]
mod database;
#[path = "postgres/faults.rs"]
mod faults;
#[path = "postgres/moving.rs"]
mod moving;
#[path = "postgres/news.rs"]
mod news;
#[path = "postgres/nodes.rs"]
mod nodes;
#[path = "postgres/schema.rs"]
mod schema;

use tollgate_backends::postgres;
use tollgate_storage::conformance::{BoxFuture, Factory};

use database::TestDatabase;

/// The suite that every engine passes.
mod conformance {
    tollgate_storage::conformance_tests!(crate::run);
}

fn run(case: impl FnOnce(Factory) -> BoxFuture<()>) {
    let database = TestDatabase::create();
    let config = database.config();
    database.block_on(async {
        postgres::migrate(&config.url).await.unwrap();
        let factory = Factory::new(move || {
            let config = config.clone();
            async move { postgres::open(config).await.unwrap() }
        });
        case(factory).await;
    });
}
