//! Exports: rows of the books as CSV or as lines of JSON. They come in pages, so that books of any size pass through a
//! little memory.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::mem;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_server::control::view::{AccountView, Reply};
use tollgate_server::control::{self, Command};
use tollgate_types::AccountId;

use super::control::{KNOWN_ACCOUNTS, refused};
use super::start;
use crate::cli::{Export, Format, Place};
use crate::failure::{Exit, Failure};

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Transfers.
    Transfers,
    /// Usage rows.
    Usage,
}

/// `ledger export` and `usage export`.
pub fn export(place: Place, command: &Export, rows: Rows) -> Result<Exit, Failure> {
    let config = start(place)?;
    let mut out = Sink::open(command.out.as_deref(), command.format)?;
    let mut accounts = Vec::new();
    let first = match command.account {
        Some(account) => page(rows, account, command, None),
        None => Command::ListAccounts {
            after: None,
            limit: None,
        },
    };
    let mut failure = None;
    let next = |reply: Reply| match answered(reply, rows, command, &mut accounts, &mut out) {
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

/// The command for a page.
fn page(rows: Rows, account: AccountId, command: &Export, after: Option<&Reply>) -> Command {
    let (from, to) = (command.from, command.to);
    match rows {
        Rows::Transfers => Command::ListTransfers {
            account,
            from,
            to,
            after: match after {
                Some(Reply::Transfers(page)) => page.last().cloned().map(Box::new),
                _ => None,
            },
        },
        Rows::Usage => Command::ListUsage {
            account,
            from,
            to,
            after: match after {
                Some(Reply::UsageRows(page)) => page.last().map(|row| row.id),
                _ => None,
            },
            limit: None,
        },
    }
}

/// Writes a page; answers what is to be asked next.
fn answered(
    reply: Reply,
    rows: Rows,
    command: &Export,
    accounts: &mut Vec<AccountId>,
    out: &mut Sink,
) -> Result<Option<Command>, Failure> {
    let of = match &reply {
        Reply::Accounts(found) => {
            *accounts = found
                .iter()
                .rev()
                .map(|account: &AccountView| account.id)
                .collect();
            None
        }
        Reply::Transfers(page) => {
            page.iter().try_for_each(|row| out.row(row))?;
            page.last().map(|row| row.account_id)
        }
        Reply::UsageRows(page) => {
            page.iter().try_for_each(|row| out.row(row))?;
            page.last().map(|row| row.account_id)
        }
        other => return Err(super::control::unexpected(other)),
    };
    if out.is_closed {
        return Ok(None);
    }
    let same = of.map(|account| page(rows, account, command, Some(&reply)));
    Ok(same.or_else(|| Some(page(rows, accounts.pop()?, command, None))))
}

/// Where rows go.
struct Sink {
    rows: Rowed,
    /// Nobody reads any more: `| head` has what it wanted.
    is_closed: bool,
}

/// How they are written.
enum Rowed {
    Csv {
        writer: Box<csv::Writer<Box<dyn Write>>>,
        has_head: bool,
    },
    Lines(Box<dyn Write>),
}

impl Sink {
    fn open(path: Option<&Path>, format: Format) -> Result<Sink, Failure> {
        let out: Box<dyn Write> = match path {
            Some(path) => Box::new(
                File::create(path)
                    .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?,
            ),
            None => Box::new(io::stdout()),
        };
        let out: Box<dyn Write> = Box::new(BufWriter::new(out));
        let rows = match format {
            Format::Csv => Rowed::Csv {
                writer: Box::new(csv::Writer::from_writer(out)),
                has_head: false,
            },
            Format::Jsonl => Rowed::Lines(out),
        };
        Ok(Sink {
            rows,
            is_closed: false,
        })
    }

    fn row(&mut self, row: &impl Serialize) -> Result<(), Failure> {
        let written = self.rows.write(row);
        self.told(written)
    }

    fn finish(mut self) -> Result<(), Failure> {
        let flushed = match &mut self.rows {
            Rowed::Csv { writer, .. } => writer.flush(),
            Rowed::Lines(out) => out.flush(),
        };
        self.told(flushed)
    }

    fn told(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            other => other.map_err(|error| Failure::failed(format!("cannot write the export: {error}"))),
        }
    }
}

impl Rowed {
    fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        match self {
            Rowed::Lines(out) => {
                let line = serde_json::to_string(row)?;
                writeln!(out, "{line}")
            }
            Rowed::Csv { writer, has_head } => {
                let fields = fields(row)?;
                if !mem::replace(has_head, true) {
                    writer.write_record(fields.iter().map(|(name, _)| name))?;
                }
                writer.write_record(fields.iter().map(|(_, value)| value))?;
                Ok(())
            }
        }
    }
}

/// Names and values of a row's columns, in the order of its fields.
fn fields(row: &impl Serialize) -> io::Result<Vec<(String, String)>> {
    let object: Map<String, Value> = serde_json::from_value(serde_json::to_value(row)?)?;
    let field = |(name, value)| {
        let text = match value {
            Value::Null => String::new(),
            Value::Array(list) if list.is_empty() => String::new(),
            Value::String(text) => guarded(text),
            other => other.to_string(),
        };
        (name, text)
    };
    Ok(object.into_iter().map(field).collect())
}

/// A text that no spreadsheet takes for a formula: one that begins as a formula does gets an apostrophe before it.
/// Callers choose the names of models. Numbers below zero stay numbers.
fn guarded(text: String) -> String {
    let is_number = text.strip_prefix('-').is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        true => format!("'{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_begin_as_formulas_do_are_guarded() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-cmd", "'-cmd"),
            ("-", "'-"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("-0.5", "-0.5"),
            ("sim/chat", "sim/chat"),
            ("", ""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(guarded(text.to_owned()), expected, "{text:?}");
        }
    }

    #[test]
    fn columns_have_the_order_of_the_fields() {
        #[derive(Serialize)]
        struct Row {
            zeta: Option<u8>,
            alpha: &'static str,
            number: u64,
        }
        let row = Row {
            zeta: None,
            alpha: "=x",
            number: 7,
        };
        let fields = fields(&row).unwrap();
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<&str> = fields.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(names, ["zeta", "alpha", "number"]);
        assert_eq!(values, ["", "'=x", "7"]);
    }
}
