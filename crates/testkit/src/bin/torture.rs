//! The torture as a program; `cargo xtask torture` builds and runs it.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tollgate_testkit::torture::{Torture, torture};

const HELP: &str = "Usage: torture BINARY SEED SECONDS";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [binary, seed, seconds] = arguments.as_slice() else {
        return usage();
    };
    let (Ok(seed), Ok(seconds)) = (seed.parse(), seconds.parse()) else {
        return usage();
    };
    let length = Duration::from_secs(seconds);
    // What is wrong is a panic, and with it the exit code is not 0.
    torture(Torture {
        binary: binary.into(),
        seed,
        length,
    })
    .await;
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{HELP}");
    ExitCode::from(2)
}
