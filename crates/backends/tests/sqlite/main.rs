//! Tests of the SQLite engine, each on separate files in a temporary directory.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking; measurements print"
)]

mod bench;
mod conformance;
mod crash;
mod directory;
mod faults;
mod killed;
#[path = "../measure/usage.rs"]
mod measure_usage;
mod oracle;
mod properties;
mod samples;
mod weeks;
