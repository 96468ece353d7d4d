//! What becomes of each feature of a request on the way from each format of a caller to each format of a provider:
//! docs/matrix.md is written by this test and compared with it. Nothing may be lost in silence.
//!
//! `TOLLGATE_WRITE=1 cargo test -p tollgate-formats --test matrix` writes the page.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cell;
mod client;
#[expect(
    dead_code,
    reason = "of the golden files' common form only requests are needed"
)]
#[path = "../golden/ir.rs"]
mod ir;
mod page;
mod provider;
mod said;

use std::fs;
use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has no configuration")]
fn the_page_says_what_the_formats_do() {
    let features = said::all();
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
