//! The commands `ledger audit`, `ledger receipt` and `ledger verify`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tollgate_operations::receipts::Verifier;
use tollgate_operations::{AuditLedger, ShowReceipt, TransferView};

use super::control::{KNOWN_ACCOUNTS, resolve_filter, send};
use super::start;
use crate::cli::{AuditScope, Place, Receipt, Verify};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, receipts};

/// Advice for an unknown call id.
const KNOWN_CALLS: &str =
    "`tollgate usage export` lists calls; the `x-request-id` response header contains the request id.";
/// UTF-8 byte order mark, which some editors and spreadsheets add to a CSV file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

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
