//! Gateway and API key of evaluations, and their progress.

use clap::Args;
use secrecy::SecretString;

use crate::failure::Failure;
use crate::print::Printer;

/// A gateway, and an API key of an account.
#[derive(Debug, Args)]
pub struct GatewayAccess {
    /// Base URL of the gateway.
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,
    /// API key. Prefer the environment variable: `ps` shows the command line.
    #[arg(long, value_name = "KEY", env = "TOLLGATE_API_KEY", hide_env_values = true)]
    pub key: Option<SecretString>,
}

impl GatewayAccess {
    /// Returns the API key, or an error that says how to pass one.
    pub fn key(&self) -> Result<&SecretString, Failure> {
        self.key.as_ref().ok_or_else(|| {
            Failure::usage(
                "no API key: set TOLLGATE_API_KEY or pass --key. Create one with `tollgate keys create`.",
            )
        })
    }
}

/// Prints the progress after each tenth of the cases. `done` begins at 1.
pub fn report_tenths(printer: &Printer, done: usize, number: usize, unit: &str) {
    if done * 10 / number != (done - 1) * 10 / number {
        printer.hint(&format!("{done} of {number} {unit}"));
    }
}
