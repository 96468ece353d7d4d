//! The `tollgate batches` commands.

use std::io::{IsTerminal, stdout};

use tollgate_operations::Command;
use tollgate_operations::view::Reply;

use super::control::{resolve_filter, send, unexpected};
use super::start;
use crate::cli::{Batches, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, batches as tables};

/// Advice for an unknown batch id.
const KNOWN: &str = "`tollgate batches list` shows the existing batches.";

/// Runs `tollgate batches`.
pub fn batches(place: Place, command: Batches, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let command = match command {
        Batches::List { account, limit } => Command::ListBatches {
            account: resolve_filter(config, account.as_ref())?,
            before: None,
            limit,
        },
        Batches::Show { id } => Command::ShowBatch { id },
    };
    match send(config, command, KNOWN)? {
        Reply::Batches(found) => {
            printer.answer(&found, || tables::batches(&found, stdout().is_terminal()))?;
            if found.is_empty() {
                printer.hint("No batches. Accounts create them with POST /v1/batches.");
            }
        }
        Reply::Batch(batch) => printer.answer(&batch, || tables::batch(&batch, stdout().is_terminal()))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
