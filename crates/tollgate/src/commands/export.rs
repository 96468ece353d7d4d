//! The commands `ledger export` and `usage export`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use tollgate_operations::export::{self, ExportPage, ExportRows, Kind};
use tollgate_server::control;

use super::control::{KNOWN_ACCOUNTS, refused, resolve_filter};
use super::start;
use crate::cli::{Export, Format, Place};
use crate::failure::{Exit, Failure};

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
