//! The `tollgate models` command.

use clap::Subcommand;
use tollgate_server::control;

use super::send::refused;
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Subcommands of `tollgate models`.
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List the available models with their prices in credits.
    #[command(after_help = "Examples:\n  tollgate models list\n  tollgate models list --json")]
    List,
}

/// Runs `tollgate models`.
pub fn models(place: Place, command: Models, printer: &Printer) -> Result<Exit, Failure> {
    let Models::List = command;
    let models = control::list_models(&start(place)?).map_err(|error| refused(error, ""))?;
    printer.answer(&models, || tables::models(&models))?;
    Ok(Exit::Fine)
}
