//! The conversion matrix: the result of each request feature for each pair of caller format and
//! provider format. This test compares the result with docs/matrix.md, and fails if a conversion
//! loses a feature without reporting it.
//!
//! `TOLLGATE_WRITE=1 cargo test -p tollgate-formats --test matrix` writes the page.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cell;
mod client;
mod features;
#[expect(
    dead_code,
    reason = "of the golden files' common form only requests are needed"
)]
#[path = "../golden/ir.rs"]
mod ir;
mod page;
mod provider;

use std::fs;
use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has no configuration")]
fn matrix_page_is_up_to_date() {
    let features = features::all();
    let written = page::write(&features).unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrix.md");
    if std::env::var("TOLLGATE_WRITE").is_ok() {
        fs::write(&path, &written).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == written,
        "docs/matrix.md is not what the formats do. Read what changed, then write it anew: \
         TOLLGATE_WRITE=1 cargo test -p tollgate-formats --test matrix"
    );
}
