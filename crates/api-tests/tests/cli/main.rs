//! The command line as its users see it: the built binary, its output and its exit codes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared test helpers panic on failure"
)]

mod checks;
mod commands;
mod decisions;
mod example;
mod faults;
mod installation;
mod postgres;
mod research;
mod serving;
