//! The SQLite engine, on files of its own in a temporary directory for each test.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "whatever goes wrong in a test fails it; measurements print"
)]

mod bench;
mod conformance;
mod crash;
mod directory;
mod faults;
mod killed;
mod oracle;
mod properties;
mod samples;
mod weeks;
