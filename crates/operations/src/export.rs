//! Exports: rows of the ledger and of usage as CSV or as JSON lines. An export reads page by page,
//! so its memory use does not depend on the number of rows.

use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_types::{AccountId, Error, Timestamp};

use crate::operation::{Completed, Declaration, Operation, Reply};
use crate::view::{AccountView, TransferView, UsageView};
use crate::{Actor, ListAccounts, ListTransfers, ListUsage, Operations};

/// The exported table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Transfers,
    Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CSV with a header before the first row.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// The command for one page of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportPage {
    /// The accounts to export.
    Accounts(ListAccounts),
    Transfers(ListTransfers),
    Usage(ListUsage),
}

/// The rows of one page of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportRows {
    /// The accounts to export.
    Accounts(Vec<AccountView>),
    Transfers(Vec<TransferView>),
    Usage(Vec<UsageView>),
}

impl Reply for ExportRows {}

impl Operation for ExportPage {
    const NAME: &'static str = "export_page";
    type Reply = ExportRows;

    fn declaration(&self) -> Declaration {
        match self {
            Self::Accounts(accounts) => accounts.declaration(),
            Self::Transfers(page) => page.declaration(),
            Self::Usage(page) => page.declaration(),
        }
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let rows = match self {
            Self::Accounts(accounts) => {
                ExportRows::Accounts(accounts.execute(operations, actor).await?.reply)
            }
            Self::Transfers(page) => ExportRows::Transfers(page.execute(operations, actor).await?.reply),
            Self::Usage(page) => ExportRows::Usage(page.execute(operations, actor).await?.reply),
        };
        Ok(rows.into())
    }
}

/// An export: a sequence of commands, each created from the reply to the previous one.
#[derive(Debug)]
pub struct Export {
    kind: Kind,
    format: Format,
    account: Option<AccountId>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    /// Accounts that remain to be exported, in reverse order.
    accounts: Vec<AccountId>,
    has_header: bool,
}

impl Export {
    /// Creates an export of one account, or of all if `account` is `None`. Rows are filtered by
    /// time: `from` is inclusive, `to` is exclusive.
    pub fn new(
        kind: Kind,
        format: Format,
        account: Option<AccountId>,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Self {
        Self {
            kind,
            format,
            account,
            from,
            to,
            accounts: Vec::new(),
            has_header: false,
        }
    }

    /// Returns the command for the first page.
    pub fn first(&self) -> ExportPage {
        match self.account {
            Some(account) => self.page(account, None),
            None => ExportPage::Accounts(ListAccounts::default()),
        }
    }

    /// Returns the rows of a page in the output format, and the command for the next page; `None`
    /// after the last page.
    pub fn take(&mut self, page: &ExportRows) -> Result<(Vec<u8>, Option<ExportPage>), Error> {
        let (rows, account) = match page {
            ExportRows::Accounts(found) => {
                self.accounts = found.iter().rev().map(|account| account.id).collect();
                (Vec::new(), None)
            }
            ExportRows::Transfers(rows) => (self.written(rows)?, rows.last().map(|row| row.account_id)),
            ExportRows::Usage(rows) => (self.written(rows)?, rows.last().map(|row| row.account_id)),
        };
        let next = match account {
            Some(account) => Some(self.page(account, Some(page))),
            None => self.accounts.pop().map(|account| self.page(account, None)),
        };
        Ok((rows, next))
    }

    /// Returns the command for the page after `previous`, or for the account's first page if
    /// `None`.
    fn page(&self, account: AccountId, previous: Option<&ExportRows>) -> ExportPage {
        let (from, to) = (self.from, self.to);
        match self.kind {
            Kind::Transfers => ExportPage::Transfers(ListTransfers {
                account,
                from,
                to,
                after: match previous {
                    Some(ExportRows::Transfers(rows)) => rows.last().cloned().map(Box::new),
                    _ => None,
                },
            }),
            Kind::Usage => ExportPage::Usage(ListUsage {
                account,
                from,
                to,
                after: match previous {
                    Some(ExportRows::Usage(rows)) => rows.last().map(|row| row.id),
                    _ => None,
                },
                limit: None,
            }),
        }
    }

    fn written(&mut self, rows: &[impl Serialize]) -> Result<Vec<u8>, Error> {
        match self.format {
            Format::Csv => csv_rows(rows, &mut self.has_header),
            Format::Jsonl => {
                let mut lines = Vec::new();
                for row in rows {
                    serde_json::to_writer(&mut lines, row).map_err(Error::internal)?;
                    lines.push(b'\n');
                }
                Ok(lines)
            }
        }
    }
}

/// Returns rows as CSV. A header precedes the first row unless `has_header` is set, which the call
/// sets.
pub fn csv_rows(rows: &[impl Serialize], has_header: &mut bool) -> Result<Vec<u8>, Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        let fields = fields(row).map_err(Error::internal)?;
        if !mem::replace(has_header, true) {
            let names = fields.iter().map(|(name, _)| name);
            writer.write_record(names).map_err(Error::internal)?;
        }
        let values = fields.iter().map(|(_, value)| value);
        writer.write_record(values).map_err(Error::internal)?;
    }
    writer
        .into_inner()
        .map_err(|error| Error::internal(error.to_string()))
}

/// Returns the names and values of a row's columns, in the order of its fields.
fn fields(row: &impl Serialize) -> serde_json::Result<Vec<(String, String)>> {
    let object: Map<String, Value> = serde_json::from_value(serde_json::to_value(row)?)?;
    let field = |(name, value)| {
        let text = match value {
            Value::Null => String::new(),
            Value::Array(list) if list.is_empty() => String::new(),
            Value::String(text) => escape_formula(text),
            other => other.to_string(),
        };
        (name, text)
    };
    Ok(object.into_iter().map(field).collect())
}

/// Puts an apostrophe before a text that a spreadsheet would evaluate as a formula. Such texts are
/// possible because callers choose the model names in requests. Negative numbers stay unchanged.
fn escape_formula(text: String) -> String {
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
    fn texts_that_start_like_formulas_are_escaped() {
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
            assert_eq!(escape_formula(text.to_owned()), expected, "{text:?}");
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
