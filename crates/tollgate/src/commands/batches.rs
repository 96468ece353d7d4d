//! The `tollgate batches` commands.

use std::io::{IsTerminal, stdout};

use clap::{Subcommand, value_parser};
use tollgate_operations::{ListBatches, ShowBatch};
use tollgate_types::{BatchId, MessageBatchId};

use super::arguments::AccountArg;
use super::send::{resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, batches as tables};

/// Advice for an unknown batch id.
const KNOWN: &str = "`tollgate batches list` shows the existing batches.";

/// Subcommands of `tollgate batches`.
#[derive(Debug, Subcommand)]
pub enum Batches {
    /// List batches with their progress, newest first.
    #[command(
        after_help = "Examples:\n  tollgate batches list\n  tollgate batches list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --limit 200 --json"
    )]
    List {
        /// Filter by account (default: all).
        #[arg(long, value_name = "ID|NAME")]
        account: Option<AccountArg>,
        /// Maximum number of batches to list, 1–1000.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Show a batch with its progress, files and cost.
    #[command(
        after_help = "Examples:\n  tollgate batches show batch_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate batches show msgbatch_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    Show {
        /// Batch id (batch_… or msgbatch_…).
        #[arg(value_parser = batch_id)]
        id: BatchId,
    },
}

/// Parses a batch id with either prefix.
fn batch_id(text: &str) -> Result<BatchId, &'static str> {
    let of_messages = |_| {
        text.parse::<MessageBatchId>()
            .map(|id| BatchId::from_u128(id.as_u128()))
    };
    text.parse().or_else(of_messages).map_err(
        |_| "expected a batch id: batch_ or msgbatch_ and 32 hex digits; see `tollgate batches list`",
    )
}

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
