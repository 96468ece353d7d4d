//! The binary: reads the command line, hands it to the server crate, prints what comes back.
//!
//! Suggested reading order: [`cli`], [`commands`], [`mod@print`], [`failure`].

mod cli;
mod commands;
mod failure;
mod print;

use std::process::ExitCode;

/// Replaces the system's allocator: a call to a model is mostly small, short-lived allocations. It is built without huge
/// pages (`no_thp`): they make a process of 6 MB one of 22.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::run(std::env::args_os().collect()).into()
}
