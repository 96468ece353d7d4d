//! `cargo xtask`: checks of the repository itself. Nothing here is part of the gateway.

mod floors;
mod openapi;
mod tidy;
mod torture;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

const HELP: &str = "\
Checks of the repository itself.

  cargo xtask tidy
      Floors, names, error pages, links, words; prints the largest files and functions.
  cargo xtask openapi check [--from FILE]
      Fails when docs/openapi.json or docs/openapi-admin.json is not what the code generates, or has lost or narrowed something.
  cargo xtask openapi write [--from FILE] [--allow-breaking]
      Writes both; refuses a loss unless --allow-breaking is given.
  cargo xtask torture [--seed N] [--minutes M]
      Runs three nodes for M minutes (1) while their databases, processes and roads fail as the seed says, and checks the books.

FILE is the public document, printed earlier by `tollgate openapi`; without it the command is built and run.
Exit codes: 0 fine, 1 a check found faults, 2 the command itself failed.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Carries out one command; false when a check found faults.
fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies inside the repository")?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(root),
        ["openapi", "check", options @ ..] => openapi::check(root, &openapi::Options::parse(options)?),
        ["openapi", "write", options @ ..] => openapi::write(root, &openapi::Options::parse(options)?),
        ["torture", options @ ..] => torture::run(root, &torture::Options::parse(options)?),
        [] | ["help" | "-h" | "--help"] => {
            println!("{HELP}");
            Ok(true)
        }
        _ => bail!("unknown command `{}`\n\n{HELP}", words.join(" ")),
    }
}
