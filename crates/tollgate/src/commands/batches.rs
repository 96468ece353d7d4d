//! The `tollgate batches` commands.

use std::io::{IsTerminal, stdout};

use tollgate_operations::{ListBatches, ShowBatch};

use super::control::{resolve_filter, send};
use super::start;
use crate::cli::{Batches, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, batches as tables};

/// Advice for an unknown batch id.
const KNOWN: &str = "`tollgate batches list` shows the existing batches.";

/// Runs `tollgate batches`.
pub fn batches(place: Place, command: Batches, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    match command {
        Batches::List { account, limit } => {
            let command = ListBatches {
                account: resolve_filter(config, account.as_ref())?,
                before: None,
                limit,
            };
            let found = send(config, command, KNOWN)?;
            printer.answer(&found, || tables::batches(&found, stdout().is_terminal()))?;
            if found.is_empty() {
                printer.hint("No batches. Accounts create them with POST /v1/batches.");
            }
        }
        Batches::Show { id } => {
            let batch = send(config, ShowBatch { id }, KNOWN)?;
            printer.answer(&batch, || tables::batch(&batch, stdout().is_terminal()))?;
        }
    }
    Ok(Exit::Fine)
}
