//! The program of the fault injection run; `cargo xtask fault-injection` builds and runs it.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tollgate_testkit::fault_injection::{FaultInjection, run};

const HELP: &str = "Usage: fault-injection BINARY SEED SECONDS";

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
    // A failed check panics, so the exit code is not 0.
    run(FaultInjection {
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
