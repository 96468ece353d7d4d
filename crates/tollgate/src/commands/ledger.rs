//! The `tollgate ledger` commands, except `ledger export`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tollgate_operations::receipts::Verifier;
use tollgate_operations::view::CheckView;
use tollgate_operations::{AuditLedger, CheckLedger, ShowReceipt, TransferView};
use tollgate_types::{RequestId, Timestamp};

use super::arguments::{AccountArg, call_id, instant};
use super::export::Export;
use super::send::{KNOWN_ACCOUNTS, resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, receipts, tables};

/// Advice for an unknown call id.
const KNOWN_CALLS: &str =
    "`tollgate usage export` lists calls; the `x-request-id` response header contains the request id.";

/// UTF-8 byte order mark, which some editors and spreadsheets add to a CSV file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Subcommands of `tollgate ledger`.
#[derive(Debug, Subcommand)]
pub enum Ledger {
    /// Verify all ledger invariants.
    #[command(
        after_help = "Examples:\n  tollgate ledger check\n  tollgate ledger check --reprice --json\n\nExit code 3 when an invariant is violated."
    )]
    Check {
        /// Also recompute the cost of every usage row.
        #[arg(long)]
        reprice: bool,
    },
    /// Recompute every charge independently and list the differences.
    ///
    /// The audit computes each charge from its usage row, price version and hold, with code
    /// separate from the billing code. Differences show both amounts, in nano-credits.
    #[command(
        after_help = "Examples:\n  tollgate ledger audit\n  tollgate ledger audit --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --json\n\nExit code 3 when a figure differs."
    )]
    Audit(AuditScope),
    /// Show the charge of one call as a receipt with line-by-line arithmetic.
    #[command(
        after_help = "Examples:\n  tollgate ledger receipt req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate ledger receipt hold_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json\n\nExit code 3 when the ledger records different figures."
    )]
    Receipt(Receipt),
    /// Verify the hash chains of an export, without a database.
    ///
    /// The command reads the output of `ledger export` (CSV or JSON lines) and lists transfers that
    /// were changed, moved or removed.
    #[command(
        after_help = "Examples:\n  tollgate ledger verify ledger.csv\n  tollgate ledger verify november.jsonl --part --json\n\nExit code 3 when a chain is broken."
    )]
    Verify(Verify),
    /// Export ledger transfers, one per line, ordered by account.
    #[command(
        after_help = "Examples:\n  tollgate ledger export --all --format jsonl\n  tollgate ledger export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out ledger.csv"
    )]
    Export(Export),
}

/// Range of charges to recompute.
#[derive(Debug, Args)]
pub struct AuditScope {
    /// Filter by account (default: all).
    #[arg(long, value_name = "ID|NAME")]
    pub account: Option<AccountArg>,
    /// Calls that ended at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Calls that ended before this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
}

/// Arguments of `tollgate ledger receipt`.
#[derive(Debug, Args)]
pub struct Receipt {
    /// Request id (req_…) or hold id (hold_…).
    #[arg(value_name = "ID", value_parser = call_id)]
    pub id: RequestId,
}

/// Arguments of `tollgate ledger verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Export file, written by `ledger export`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Accept a partial export with incomplete chains.
    #[arg(long)]
    pub part: bool,
}

/// Runs `tollgate ledger check`.
pub fn check_ledger(place: Place, reprice: bool, printer: &Printer) -> Result<Exit, Failure> {
    let check = send(&start(place)?, CheckLedger { reprice }, "")?;
    printer.answer(&check, || tables::check(&check))?;
    Ok(verdict(&check))
}

fn verdict(check: &CheckView) -> Exit {
    if check.clean { Exit::Fine } else { Exit::Faults }
}

/// Runs `tollgate ledger audit`.
pub fn audit(place: Place, scope: AuditScope, printer: &Printer) -> Result<Exit, Failure> {
    let AuditScope { account, from, to } = scope;
    let config = &start(place)?;
    let account = resolve_filter(config, account.as_ref())?;
    let audit = send(config, AuditLedger { account, from, to }, KNOWN_ACCOUNTS)?;
    printer.answer(&audit, || receipts::audit(&audit))?;
    Ok(if audit.clean { Exit::Fine } else { Exit::Faults })
}

/// Runs `tollgate ledger receipt`.
pub fn receipt(place: Place, command: Receipt, printer: &Printer) -> Result<Exit, Failure> {
    let receipt = send(&start(place)?, ShowReceipt { request: command.id }, KNOWN_CALLS)?;
    printer.answer(&receipt, || receipts::receipt(&receipt))?;
    Ok(if receipt.matches { Exit::Fine } else { Exit::Faults })
}

/// Runs `tollgate ledger verify`.
pub fn verify(command: &Verify, printer: &Printer) -> Result<Exit, Failure> {
    let file = File::open(&command.file).map_err(|error| unreadable(&command.file, 0, error))?;
    let mut verifier = Verifier::default();
    read(BufReader::new(file), &command.file, |view| verifier.see(view))?;
    let view = verifier.finish(command.part);
    printer.answer(&view, || receipts::verified(&view))?;
    Ok(if view.clean { Exit::Fine } else { Exit::Faults })
}

/// Reads an export: JSON lines if the file starts with a brace, otherwise CSV.
fn read(
    mut file: impl BufRead,
    path: &Path,
    mut see: impl FnMut(&TransferView) -> Result<(), String>,
) -> Result<(), Failure> {
    let start = file.fill_buf().map_err(|error| unreadable(path, 0, error))?;
    let is_json = start.trim_ascii_start().starts_with(b"{");
    if !is_json {
        let mark = start.starts_with(BYTE_ORDER_MARK.as_bytes());
        file.consume(if mark { BYTE_ORDER_MARK.len() } else { 0 });
        return read_csv(file, path, see);
    }
    for (number, line) in file.lines().enumerate() {
        let line = line.map_err(|error| unreadable(path, number + 1, error))?;
        if line.trim().is_empty() {
            continue;
        }
        let view = serde_json::from_str(&line).map_err(|error| unreadable(path, number + 1, error))?;
        see(&view).map_err(|what| unreadable(path, number + 1, what))?;
    }
    Ok(())
}

fn read_csv(
    file: impl Read,
    path: &Path,
    mut see: impl FnMut(&TransferView) -> Result<(), String>,
) -> Result<(), Failure> {
    let mut reader = csv::Reader::from_reader(file);
    for (row, view) in reader.deserialize::<TransferView>().enumerate() {
        let view = view.map_err(|error| unreadable(path, row + 2, error))?;
        see(&view).map_err(|what| unreadable(path, row + 2, what))?;
    }
    Ok(())
}

fn unreadable(path: &Path, line: usize, why: impl std::fmt::Display) -> Failure {
    let path = path.display();
    match line {
        0 => Failure::failed(format!("cannot read {path}: {why}")),
        line => Failure::failed(format!(
            "cannot read {path}, line {line}: {why}. Pass a file that `tollgate ledger export` wrote."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_has_an_exit_code_of_its_own() {
        let report = CheckView {
            clean: false,
            accounts: 1,
            transfers: 0,
            usage_rows: 0,
            open_holds: 0,
            revenue: Default::default(),
            overrun: Default::default(),
            crashed: 0,
            chain_heads: 1,
            unchained: 0,
            fault_count: 1,
            faults: vec!["I1: the balances do not sum to zero".to_owned()],
        };
        assert_eq!(verdict(&report), Exit::Faults);
        assert_eq!(
            verdict(&CheckView {
                clean: true,
                ..report
            }),
            Exit::Fine
        );
    }
}
