//! The command line as its users see it: the built binary, its output and its exit codes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what the tests share fails by panicking, too"
)]

mod checks;
mod commands;
mod decisions;
mod example;
mod faults;
mod installation;
mod postgres;
mod serving;
