//! The commands `ledger export` and `usage export`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tollgate_operations::export::{self, ExportPage, ExportRows, Kind};
use tollgate_server::control;
use tollgate_types::Timestamp;

use super::arguments::{AccountArg, instant};
use super::send::{KNOWN_ACCOUNTS, refused, resolve_filter};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};

/// Subcommands of `tollgate usage`.
#[derive(Debug, Subcommand)]
pub enum Usage {
    /// Export usage, one line per call, ordered by account, newest first. Prompts and responses are
    /// not included.
    #[command(
        after_help = "Examples:\n  tollgate usage export --all --format jsonl\n  tollgate usage export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out usage.csv"
    )]
    Export(Export),
}

/// Rows to export, with their format and destination.
#[derive(Debug, Args)]
pub struct Export {
    /// Export the rows of this account. Required unless --all is set.
    #[arg(long, value_name = "ID|NAME", required_unless_present = "all")]
    pub account: Option<AccountArg>,
    /// Export the rows of all accounts.
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    /// Rows created at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Rows created before this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
    /// Output format of the rows.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Output file, which is overwritten (default: stdout).
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Output format of exported rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CSV with a header row. Cells that a spreadsheet would evaluate as formulas are escaped.
    #[default]
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// Runs `tollgate ledger export` or `tollgate usage export`.
pub fn export(place: Place, command: &Export, kind: Kind) -> Result<Exit, Failure> {
    let config = start(place)?;
    // Check this before the output file is created.
    control::require_data(&config).map_err(|error| refused(error, KNOWN_ACCOUNTS))?;
    let account = resolve_filter(&config, command.account.as_ref())?;
    let mut out = Sink::open(command.out.as_deref())?;
    let format = match command.format {
        Format::Csv => export::Format::Csv,
        Format::Jsonl => export::Format::Jsonl,
    };
    let mut export = export::Export::new(kind, format, account, command.from, command.to);
    let first = export.first();
    let mut failure = None;
    let next = |rows: ExportRows| match written(&rows, &mut export, &mut out) {
        Ok(next) => Ok(next),
        Err(error) => {
            failure = Some(error);
            Ok(None)
        }
    };
    control::run_each(&config, first, next).map_err(|error| refused(error, KNOWN_ACCOUNTS))?;
    match failure {
        Some(failure) => Err(failure),
        None => out.finish().map(|()| Exit::Fine),
    }
}

/// Writes the rows of a page and returns the command for the next page, or `None` after the last
/// page or when the output is closed.
fn written(
    page: &ExportRows,
    export: &mut export::Export,
    out: &mut Sink,
) -> Result<Option<ExportPage>, Failure> {
    let (rows, next) = export.take(page)?;
    out.write(&rows)?;
    Ok(next.filter(|_| !out.is_closed))
}

/// Output of exported rows: a file or stdout.
struct Sink {
    out: Box<dyn Write>,
    /// Whether the reader has closed the pipe, as `| head` does.
    is_closed: bool,
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Sink, Failure> {
        let out: Box<dyn Write> = match path {
            Some(path) => Box::new(
                File::create(path)
                    .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?,
            ),
            None => Box::new(io::stdout()),
        };
        Ok(Sink {
            out: Box::new(BufWriter::new(out)),
            is_closed: false,
        })
    }

    fn write(&mut self, rows: &[u8]) -> Result<(), Failure> {
        let written = self.out.write_all(rows);
        self.judge(written)
    }

    fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.out.flush();
        self.judge(flushed)
    }

    fn judge(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            other => other.map_err(|error| Failure::failed(format!("cannot write the export: {error}"))),
        }
    }
}
