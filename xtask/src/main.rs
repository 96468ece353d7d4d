//! `cargo xtask`: checks of the repository itself. Nothing here is part of the gateway.

mod fault_injection;
mod layers;
mod openapi;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

const HELP: &str = "\
Checks of the repository itself.

  cargo xtask tidy
      Layers, names, error pages, links, words; prints the largest files and functions.
  cargo xtask language [PATH]
      Lists the words and comments below PATH that need another wording.
  cargo xtask language --sample COUNT SEED
      Prints COUNT comments and COUNT user-visible texts, drawn at random, for a review.
  cargo xtask openapi check [--from FILE]
      Fails when docs/openapi.json or docs/openapi-admin.json is not what the code generates, or has lost or narrowed something.
  cargo xtask openapi write [--from FILE] [--allow-breaking]
      Writes both; refuses a loss unless --allow-breaking is given.
  cargo xtask fault-injection [--seed N] [--minutes M]
      Runs three nodes for M minutes (default 1) under faults of databases, processes and network that the seed
      determines, and checks the ledger.

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

/// Executes one command. Returns false if a check found faults.
fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies inside the repository")?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(root),
        ["language", "--sample", count, seed] => tidy::sample_language(root, count, seed),
        ["language"] => tidy::print_language(root, ""),
        ["language", below] => tidy::print_language(root, below),
        ["openapi", "check", options @ ..] => openapi::check(root, &openapi::Options::parse(options)?),
        ["openapi", "write", options @ ..] => openapi::write(root, &openapi::Options::parse(options)?),
        ["fault-injection", options @ ..] => {
            fault_injection::run(root, &fault_injection::Options::parse(options)?)
        }
        [] | ["help" | "-h" | "--help"] => {
            println!("{HELP}");
            Ok(true)
        }
        _ => bail!("unknown command `{}`\n\n{HELP}", words.join(" ")),
    }
}
