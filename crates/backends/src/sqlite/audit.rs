//! Audits of the ledger in one read transaction.

use std::cmp::Ordering;
use std::collections::VecDeque;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tokio::sync::mpsc;
use tollgate_storage::audit::{
    AuditVisitor, LedgerAccount, LedgerBalance, Leg, OpenHold, TransferRow, TransferSubject,
};
use tollgate_storage::{Chain, ChargedLine, Link, Lot, PriceRecord, Refund, Result, UsagePart, UsageRow};
use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use super::usage::usage_columns;
use super::writer::execute;
use super::{Core, stopped};
use crate::batches::LineColumns;
use crate::parts::PartColumns;
use crate::rows::{
    LotColumns, PriceColumns, RefundColumns, UsageColumns, corrupt, id_bytes, id_from, link_from, plan_from,
    quantity_from, storage_error, version_from,
};

const PRICES: &str = "SELECT version, model, prices, created_at FROM price_version ORDER BY version";
const ACCOUNTS: &str = "SELECT id AS account_id FROM account WHERE id > $1 ORDER BY id LIMIT $2";
const BALANCES: &str = "SELECT account_id, kind, balance, chain_sequence, chain_previous, chain_hash, unchained \
    FROM ledger_account WHERE (account_id, kind) > ($1, $2) ORDER BY account_id, kind LIMIT $3";
const LOTS: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE (account_id, id) > ($1, $2) ORDER BY account_id, id LIMIT $3";
const HOLDS: &str = "SELECT account_id, id, amount - returned AS amount, expires_at, allowance, plan_name, window_id FROM hold \
    WHERE (account_id, id) > ($1, $2) ORDER BY account_id, id LIMIT $3";
const REFUNDS: &str = "SELECT id, account_id, hold_id, credits, allowance, reason, created_at FROM refund \
    WHERE (account_id, hold_id, id) > ($1, $2, $3) ORDER BY account_id, hold_id, id LIMIT $4";
const LINES: &str = "SELECT account_id, batch_id, number, hold_id, state, content, price_version, usage, charge, overrun, \
    held \
    FROM batch_line WHERE (account_id, batch_id, number) > ($1, $2, $3) ORDER BY account_id, batch_id, number LIMIT $4";
const TRANSFERS: &str = "SELECT account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version, \
    sequence, prev_hash, hash FROM transfer \
    WHERE (account_id, entry_id, leg) > ($1, $2, $3) ORDER BY account_id, entry_id, leg LIMIT $4";
const PARTS: &str = "SELECT *, NULL AS canonical_model FROM usage_part WHERE (account_id, id, number) > ($1, $2, $3) \
    ORDER BY account_id, id, number LIMIT $4";
const USAGE: &str = concat!(
    "SELECT ",
    usage_columns!(),
    " FROM usage_row WHERE (usage_row.account_id, usage_row.id) > ($1, $2) \
    ORDER BY usage_row.account_id, usage_row.id LIMIT $3"
);

/// Number of rows of a page.
const PAGE: i64 = 1024;
/// Number of items in a batch for the visitor.
const BATCH_ITEMS: usize = 256;
/// Maximum number of queued batches.
const MAX_QUEUED_BATCHES: usize = 4;

/// An item for the visitor.
enum AuditItem {
    Price(Box<PriceRecord>),
    Account(AccountId),
    Balance(LedgerBalance, Option<Chain>),
    Lot(Box<Lot>),
    Hold(OpenHold),
    Transfer(TransferRow),
    Part(HoldId, Box<UsagePart>),
    Usage(Box<UsageRow>),
    Refund(Box<Refund>),
    Line(ChargedLine),
    AccountEnd,
    Unreadable(String),
}

/// Passes the rows of one account or of all accounts to a visitor. A task of the engine reads the
/// rows; the caller's task runs the visitor.
pub(super) async fn audit(
    core: &Core,
    account: Option<AccountId>,
    visitor: &mut dyn AuditVisitor,
) -> Result<()> {
    let (send, mut receive) = mpsc::channel(MAX_QUEUED_BATCHES);
    let reading = core.read(move |connection| {
        Box::pin(async move {
            execute(connection, "BEGIN").await?;
            let item = show_all(&mut *connection, account, AuditSender::new(send)).await;
            execute(connection, "COMMIT").await?;
            item
        })
    });
    let showing = async {
        while let Some(batch) = receive.recv().await {
            for item in batch {
                show(visitor, item);
            }
        }
        Ok(())
    };
    futures_util::future::try_join(reading, showing).await.map(|_| ())
}

fn show(visitor: &mut dyn AuditVisitor, item: AuditItem) {
    match item {
        AuditItem::Price(record) => visitor.price(record.version, &record.model, &record.prices),
        AuditItem::Account(account) => visitor.account(account),
        AuditItem::Balance(balance, chain) => {
            visitor.balance(balance);
            if let Some(chain) = chain {
                visitor.chain(chain);
            }
        }
        AuditItem::Lot(lot) => visitor.lot(&lot),
        AuditItem::Hold(hold) => visitor.hold(hold),
        AuditItem::Transfer(transfer) => visitor.transfer(transfer),
        AuditItem::Part(row, part) => visitor.part(row, &part),
        AuditItem::Usage(row) => visitor.usage(&row),
        AuditItem::Refund(refund) => visitor.refund(&refund),
        AuditItem::Line(line) => visitor.line(&line),
        AuditItem::AccountEnd => visitor.account_end(),
        AuditItem::Unreadable(what) => visitor.unreadable(what),
    }
}

/// Sender of items to the visitor, in batches.
struct AuditSender {
    send: mpsc::Sender<Vec<AuditItem>>,
    batch: Vec<AuditItem>,
}

impl AuditSender {
    fn new(send: mpsc::Sender<Vec<AuditItem>>) -> AuditSender {
        AuditSender {
            send,
            batch: Vec::with_capacity(BATCH_ITEMS),
        }
    }

    async fn show(&mut self, item: AuditItem) -> Result<()> {
        self.batch.push(item);
        if self.batch.len() >= BATCH_ITEMS {
            self.send().await?;
        }
        Ok(())
    }

    /// Sends the item of a row. An error is sent as [`AuditItem::Unreadable`].
    async fn show_row(&mut self, item: Result<AuditItem>) -> Result<()> {
        self.show(item.unwrap_or_else(|error| AuditItem::Unreadable(error.to_string())))
            .await
    }

    async fn send(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_ITEMS));
        self.send.send(batch).await.map_err(stopped)
    }
}

/// Sends all prices, then the rows of all tables, merged by account. Each table is read in account
/// order and in pages, so that the memory use does not depend on the size of the ledger.
async fn show_all(
    connection: &mut SqliteConnection,
    only: Option<AccountId>,
    mut sender: AuditSender,
) -> Result<()> {
    let prices = sqlx::query(PRICES).fetch_all(&mut *connection).await;
    for row in prices.map_err(storage_error)? {
        sender.show_row(price(&row)).await?;
    }
    let first = only.map(|account| id_bytes(account.as_u128()));
    let table = |statement, key, read| Table::new(statement, key, read, first.clone());
    let mut accounts = match only {
        None => table(ACCOUNTS, Key::Account, Read::Account),
        // A page starts after its key, so the key is the preceding id.
        Some(account) => Table {
            after: vec![Value::Bytes(id_bytes(account.as_u128().wrapping_sub(1)))],
            ..table(ACCOUNTS, Key::Account, Read::Account)
        },
    };
    let mut heads = [
        table(BALANCES, Key::Kind, Read::Row(balance)),
        table(LOTS, Key::Id, Read::Row(lot)),
        table(HOLDS, Key::Id, Read::Row(open_hold)),
        table(REFUNDS, Key::Call, Read::Row(refund)),
        table(LINES, Key::Line, Read::Row(line)),
    ];
    // The transfers of a call precede its parts, and both precede its usage row.
    let mut calls = [
        table(TRANSFERS, Key::Leg, Read::Row(transfer)),
        table(PARTS, Key::Part, Read::Row(part)),
        table(USAGE, Key::Id, Read::Row(usage)),
    ];
    while let Some(row) = accounts.next(connection).await? {
        let id: Vec<u8> = row.try_get("account_id").map_err(storage_error)?;
        let account = match id_from(&id) {
            Ok(account) => AccountId::from_u128(account),
            Err(error) => {
                sender.show(AuditItem::Unreadable(error.to_string())).await?;
                continue;
            }
        };
        if only.is_some_and(|only| only != account) {
            break;
        }
        sender.show(AuditItem::Account(account)).await?;
        for table in &mut heads {
            while let Some(row) = table.next_of(&id, connection).await? {
                sender.show_row(table.read(&row)).await?;
            }
        }
        while let Some(place) = next_table(&mut calls, &id, connection).await? {
            if let Some(row) = calls[place].next(connection).await? {
                sender.show_row(calls[place].read(&row)).await?;
            }
        }
        sender.show(AuditItem::AccountEnd).await?;
    }
    sender.send().await
}

/// Returns the index of the table whose next row of this account has the smallest entry id; the
/// first such table if several have this id.
async fn next_table(
    tables: &mut [Table],
    account: &[u8],
    connection: &mut SqliteConnection,
) -> Result<Option<usize>> {
    let mut first: Option<(&[u8], usize)> = None;
    for (place, table) in tables.iter_mut().enumerate() {
        if let Some(entry) = table.entry_of(account, connection).await?
            && first.is_none_or(|(lowest, _)| entry < lowest)
        {
            first = Some((entry, place));
        }
    }
    Ok(first.map(|(_, place)| place))
}

/// Columns that follow the account in the sort key of a table.
#[derive(Clone, Copy)]
enum Key {
    Account,
    Kind,
    Id,
    Call,
    Leg,
    Part,
    Line,
}

/// A column value of a sort key.
enum Value {
    Bytes(Vec<u8>),
    Text(String),
    Number(i64),
}

#[derive(Clone, Copy)]
enum Read {
    Account,
    Row(fn(&SqliteRow) -> Result<AuditItem>),
}

/// A table that is read in pages, in key order.
struct Table {
    statement: &'static str,
    key: Key,
    read: Read,
    /// Key of the last row that was read.
    after: Vec<Value>,
    rows: VecDeque<SqliteRow>,
    ended: bool,
}

impl Table {
    /// Creates a reader that starts at the first row of the table, or at the account `first`.
    fn new(statement: &'static str, key: Key, read: Read, first: Option<Vec<u8>>) -> Table {
        let empty = || Value::Bytes(Vec::new());
        let account = Value::Bytes(first.unwrap_or_default());
        // An empty id sorts before every id, and numbers of legs, parts and lines are not negative.
        let after = match key {
            Key::Account => vec![account],
            Key::Kind => vec![account, Value::Text(String::new())],
            Key::Id => vec![account, empty()],
            Key::Call => vec![account, empty(), empty()],
            Key::Leg | Key::Part | Key::Line => vec![account, empty(), Value::Number(-1)],
        };
        Table {
            statement,
            key,
            read,
            after,
            rows: VecDeque::new(),
            ended: false,
        }
    }

    fn read(&self, row: &SqliteRow) -> Result<AuditItem> {
        match self.read {
            Read::Account => Err(corrupt("the audit read an account row as a ledger row")),
            Read::Row(read) => read(row),
        }
    }

    async fn fill(&mut self, connection: &mut SqliteConnection) -> Result<()> {
        if !self.rows.is_empty() || self.ended {
            return Ok(());
        }
        let mut query = sqlx::query(self.statement);
        for value in &self.after {
            query = match value {
                Value::Bytes(bytes) => query.bind(bytes.clone()),
                Value::Text(text) => query.bind(text.clone()),
                Value::Number(number) => query.bind(*number),
            };
        }
        let page = query
            .bind(PAGE)
            .fetch_all(connection)
            .await
            .map_err(storage_error)?;
        self.ended = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        if let Some(last) = page.last() {
            self.after = key_of(last, self.key)?;
        }
        self.rows = page.into();
        Ok(())
    }

    async fn next(&mut self, connection: &mut SqliteConnection) -> Result<Option<SqliteRow>> {
        self.fill(connection).await?;
        Ok(self.rows.pop_front())
    }

    /// Returns the next row if it belongs to this account. Skips rows of earlier ids, which belong
    /// to no account.
    async fn next_of(
        &mut self,
        account: &[u8],
        connection: &mut SqliteConnection,
    ) -> Result<Option<SqliteRow>> {
        if !self.is_at(account, connection).await? {
            return Ok(None);
        }
        Ok(self.rows.pop_front())
    }

    /// Returns the entry id of the next row if the row belongs to this account.
    async fn entry_of(&mut self, account: &[u8], connection: &mut SqliteConnection) -> Result<Option<&[u8]>> {
        if !self.is_at(account, connection).await? {
            return Ok(None);
        }
        let column = if matches!(self.key, Key::Leg) {
            "entry_id"
        } else {
            "id"
        };
        let front = self.rows.front();
        front
            .map(|row| row.try_get(column).map_err(storage_error))
            .transpose()
    }

    async fn is_at(&mut self, account: &[u8], connection: &mut SqliteConnection) -> Result<bool> {
        loop {
            self.fill(connection).await?;
            let Some(front) = self.rows.front() else {
                return Ok(false);
            };
            let owner: &[u8] = front.try_get("account_id").map_err(storage_error)?;
            match owner.cmp(account) {
                Ordering::Less => drop(self.rows.pop_front()),
                order => return Ok(order == Ordering::Equal),
            }
        }
    }
}

fn key_of(row: &SqliteRow, key: Key) -> Result<Vec<Value>> {
    let bytes = |column| Ok(Value::Bytes(row.try_get(column).map_err(storage_error)?));
    let account = bytes("account_id")?;
    Ok(match key {
        Key::Account => vec![account],
        Key::Kind => vec![account, Value::Text(row.try_get("kind").map_err(storage_error)?)],
        Key::Id => vec![account, bytes("id")?],
        Key::Call => vec![account, bytes("hold_id")?, bytes("id")?],
        Key::Line => {
            let number = Value::Number(row.try_get("number").map_err(storage_error)?);
            vec![account, bytes("batch_id")?, number]
        }
        Key::Leg => {
            let leg = Value::Number(row.try_get("leg").map_err(storage_error)?);
            vec![account, bytes("entry_id")?, leg]
        }
        Key::Part => {
            let number = Value::Number(row.try_get("number").map_err(storage_error)?);
            vec![account, bytes("id")?, number]
        }
    })
}

fn price(row: &SqliteRow) -> Result<AuditItem> {
    let columns = PriceColumns::from_row(row).map_err(storage_error)?;
    columns
        .try_into()
        .map(|record| AuditItem::Price(Box::new(record)))
}

fn balance(row: &SqliteRow) -> Result<AuditItem> {
    let balance = LedgerBalance {
        account: ledger_account(row, "kind")?,
        balance: Credits::from_nanos(row.try_get("balance").map_err(storage_error)?),
    };
    let chain = match balance.account {
        LedgerAccount::Credits => Some(chain(row)?),
        _ => None,
    };
    Ok(AuditItem::Balance(balance, chain))
}

fn chain(row: &SqliteRow) -> Result<Chain> {
    let unchained = quantity_from(row.try_get("unchained").map_err(storage_error)?)?;
    let head = link(row, ["chain_sequence", "chain_previous", "chain_hash"])?;
    Ok(Chain { head, unchained })
}

fn link(row: &SqliteRow, [sequence, previous, hash]: [&str; 3]) -> Result<Option<Link>> {
    link_from(
        row.try_get(sequence).map_err(storage_error)?,
        row.try_get(previous).map_err(storage_error)?,
        row.try_get(hash).map_err(storage_error)?,
    )
}

fn lot(row: &SqliteRow) -> Result<AuditItem> {
    let columns = LotColumns::from_row(row).map_err(storage_error)?;
    Lot::try_from(columns).map(|lot| AuditItem::Lot(Box::new(lot)))
}

fn open_hold(row: &SqliteRow) -> Result<AuditItem> {
    Ok(AuditItem::Hold(OpenHold {
        id: HoldId::from_u128(id(row, "id")?),
        amount: Credits::from_nanos(row.try_get("amount").map_err(storage_error)?),
        allowance: Credits::from_nanos(row.try_get("allowance").map_err(storage_error)?),
        plan: plan_from(
            row.try_get("plan_name").map_err(storage_error)?,
            row.try_get("window_id").map_err(storage_error)?,
        )?,
        expires_at: Timestamp::from_micros(row.try_get("expires_at").map_err(storage_error)?),
    }))
}

fn transfer(row: &SqliteRow) -> Result<AuditItem> {
    transfer_row(row).map(AuditItem::Transfer)
}

/// Parses a row of `transfer`.
pub(super) fn transfer_row(row: &SqliteRow) -> Result<TransferRow> {
    let entry = id(row, "entry_id")?;
    let subject: &str = row.try_get("subject").map_err(storage_error)?;
    let leg: i64 = row.try_get("leg").map_err(storage_error)?;
    let version: Option<i64> = row.try_get("price_version").map_err(storage_error)?;
    Ok(TransferRow {
        subject: TransferSubject::parse(subject, entry)
            .ok_or_else(|| corrupt(format!("unknown transfer subject '{subject}'")))?,
        leg: i16::try_from(leg)
            .ok()
            .and_then(Leg::from_i16)
            .ok_or_else(|| corrupt(format!("unknown leg {leg}")))?,
        debit: ledger_account(row, "debit")?,
        credit: ledger_account(row, "credit")?,
        amount: Credits::from_nanos(row.try_get("amount").map_err(storage_error)?),
        created_at: Timestamp::from_micros(row.try_get("created_at").map_err(storage_error)?),
        price_version: version.map(version_from),
        link: link(row, ["sequence", "prev_hash", "hash"])?,
    })
}

fn part(row: &SqliteRow) -> Result<AuditItem> {
    let columns = PartColumns::from_row(row).map_err(storage_error)?;
    let (row, part) = columns.of_row()?;
    Ok(AuditItem::Part(row, Box::new(part)))
}

fn usage(row: &SqliteRow) -> Result<AuditItem> {
    let columns = UsageColumns::from_row(row).map_err(storage_error)?;
    UsageRow::try_from(columns).map(|row| AuditItem::Usage(Box::new(row)))
}

fn line(row: &SqliteRow) -> Result<AuditItem> {
    let columns = LineColumns::from_row(row).map_err(storage_error)?;
    ChargedLine::try_from(columns).map(AuditItem::Line)
}

fn refund(row: &SqliteRow) -> Result<AuditItem> {
    let columns = RefundColumns::from_row(row).map_err(storage_error)?;
    Refund::try_from(columns).map(|refund| AuditItem::Refund(Box::new(refund)))
}

fn id(row: &SqliteRow, column: &str) -> Result<u128> {
    id_from(row.try_get(column).map_err(storage_error)?)
}

fn ledger_account(row: &SqliteRow, column: &str) -> Result<LedgerAccount> {
    let name: &str = row.try_get(column).map_err(storage_error)?;
    LedgerAccount::parse(name).ok_or_else(|| corrupt(format!("unknown ledger account '{name}'")))
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    PRICES, ACCOUNTS, BALANCES, LOTS, HOLDS, TRANSFERS, PARTS, USAGE, REFUNDS,
];
