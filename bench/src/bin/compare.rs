//! The loopback comparison; see `tollgate_bench::compare`. This program also runs as the stub, the
//! load tool and the bare proxy, so that all four come from one build.

use std::process::ExitCode;

use clap::Parser as _;
use tollgate_bench::{bare, compare, load, stub};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares direct, nginx, a bare proxy and Tollgate on loopback, and prints the tables in
/// Markdown.
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    options: compare::Options,
}

#[derive(clap::Subcommand)]
enum Role {
    #[command(hide = true)]
    Stub(stub::Options),
    #[command(hide = true)]
    Load(load::Options),
    #[command(hide = true)]
    Bare(bare::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match &cli.role {
        Some(Role::Stub(options)) => stub::run(options)?,
        Some(Role::Load(options)) => load::run(options)?,
        Some(Role::Bare(options)) => bare::run(options)?,
        None => return compare::run(&cli.options),
    }
    Ok(ExitCode::SUCCESS)
}
