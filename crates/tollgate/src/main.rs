//! The binary: parses the command line, calls the server crate and prints the reply.
//!
//! Suggested reading order: [`cli`], [`commands`], [`mod@print`], [`failure`].

mod cli;
mod commands;
mod failure;
mod memory;
mod print;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run(std::env::args_os().collect()).into()
}
