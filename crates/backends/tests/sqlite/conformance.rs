//! Conformance suite of the storage ports on the SQLite engine.

use tollgate_storage::conformance::{BoxFuture, Factory};

use crate::samples::{Directory, block_on};

tollgate_storage::conformance_tests!(crate::conformance::run);

fn run(case: impl FnOnce(Factory) -> BoxFuture<()>) {
    let directory = Directory::new();
    let path = directory.path();
    let factory = Factory::new(move || {
        let directory = path.clone();
        async move { directory.open().await.unwrap() }
    });
    block_on(case(factory));
}
