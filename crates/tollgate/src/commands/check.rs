//! `config check` and `doctor`, which report problems of an installation.

use clap::Subcommand;
use serde_json::json;
use tollgate_server::doctor::{self, Finding, State};

use super::load;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Subcommands of `tollgate config`.
#[derive(Debug, Subcommand)]
pub enum Settings {
    /// Load the settings as `serve` would, and report problems without starting the gateway.
    #[command(
        after_help = "Examples:\n  tollgate config check\n  tollgate config check --config /etc/tollgate/tollgate.toml\n\nExit code 3 when the settings have problems."
    )]
    Check,
}

/// Runs `tollgate config`.
pub fn settings(place: Place, command: Settings, printer: &Printer) -> Result<Exit, Failure> {
    let Settings::Check = command;
    let findings = match load(&place.flags()) {
        Ok(config) => block_on(doctor::check_settings(&config))?,
        Err(error) => vec![doctor::unreadable(&error)],
    };
    report(&findings, printer)
}

/// Runs `tollgate doctor`.
pub fn doctor(place: Place, printer: &Printer) -> Result<Exit, Failure> {
    let findings = match load(&place.flags()) {
        Ok(config) => block_on(doctor::run(&config))?,
        // Without valid settings, only the machine can be checked.
        Err(error) => std::iter::once(doctor::unreadable(&error))
            .chain(doctor::machine())
            .collect(),
    };
    report(&findings, printer)
}

/// Runs a future to completion on a temporary single-threaded runtime.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start a runtime: {error}")))?;
    Ok(runtime.block_on(work))
}

fn report(findings: &[Finding], printer: &Printer) -> Result<Exit, Failure> {
    let clean = findings.iter().all(|finding| finding.state != State::Fault);
    printer.answer(&json!({"clean": clean, "findings": findings}), || {
        tables::findings(findings)
    })?;
    Ok(if clean { Exit::Fine } else { Exit::Faults })
}
