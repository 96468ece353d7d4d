//! `batches …`.

use std::io::{IsTerminal, stdout};

use tollgate_server::control::Command;
use tollgate_server::control::view::Reply;

use super::control::{send, unexpected};
use crate::cli::{Batches, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, batches as tables};

/// Where to look for what does not exist.
const KNOWN: &str = "`tollgate batches list` shows those that there are";

/// `batches …`.
pub fn batches(place: Place, command: Batches, printer: &Printer) -> Result<Exit, Failure> {
    let command = match command {
        Batches::List { account, limit } => Command::ListBatches {
            account,
            before: None,
            limit,
        },
        Batches::Show { id } => Command::ShowBatch { id },
    };
    match send(place, command, KNOWN)? {
        Reply::Batches(found) => {
            printer.answer(&found, || tables::batches(&found, stdout().is_terminal()))?;
            if found.is_empty() {
                printer.hint("There are none; accounts make them with POST /v1/batches.");
            }
        }
        Reply::Batch(batch) => printer.answer(&batch, || tables::batch(&batch, stdout().is_terminal()))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
