//! The binary: parses the command line, calls the server crate and prints the reply.
//!
//! Suggested reading order: [`cli`], [`commands`], [`mod@print`], [`failure`].

mod cli;
mod commands;
mod failure;
mod print;

use std::process::ExitCode;

/// Global allocator, in place of the system allocator because model calls make many small,
/// short-lived allocations. Built without huge pages (`no_thp`), which grow the process from 6 MB
/// to 22 MB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::run(std::env::args_os().collect()).into()
}
