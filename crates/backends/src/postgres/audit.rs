//! Audits of the ledger in one snapshot. The rows of ten tables are read in account order and
//! merged by account, so that the memory use does not depend on the size of the ledger.

use std::collections::VecDeque;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, FromRow, PgConnection};
use tokio::sync::mpsc;
use tollgate_storage::audit::{Leg, OpenHold, OpenLease, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Chain, ChargedLine, LedgerAccount, LedgerBalance, Link, Lot, PriceRecord, Refund, Result,
    UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, HoldId};

use super::error::while_running;
use super::pool::{Pool, join_error};
use super::rows::{self, IdBytes};
use super::usage::usage_columns;
use crate::batches::LineColumns;
use crate::parts::PartColumns;
use crate::rows::{
    LotColumns, PriceColumns, RefundColumns, UsageColumns, link_from, plan_from, version_from,
};

/// Number of items sent to the visitor together.
const CHUNK: usize = 1000;

enum AuditItem {
    Price(Box<PriceRecord>),
    Account(AccountId),
    Balance(LedgerBalance),
    Chain(Chain),
    Lot(Box<Lot>),
    Lease(OpenLease),
    Hold(OpenHold),
    Transfer(TransferRow),
    Part(HoldId, Box<UsagePart>),
    Usage(Box<UsageRow>),
    Refund(Box<Refund>),
    Line(ChargedLine),
    AccountEnd,
    Unreadable(String),
}

/// Passes the rows of one account or of all accounts to a visitor. The engine's runtime reads the
/// rows; the caller's runtime executes the visitor.
pub(super) async fn show(
    pool: &Pool,
    account: Option<AccountId>,
    visitor: &mut dyn AuditVisitor,
) -> Result<()> {
    let (sender, mut chunks) = mpsc::channel(4);
    let reader = pool.start(move |connection| Box::pin(read(connection, account, sender)));
    while let Some(chunk) = chunks.recv().await {
        for item in chunk {
            visit(visitor, item);
        }
    }
    reader.await.unwrap_or_else(|error| Err(join_error(&error)))
}

fn visit(visitor: &mut dyn AuditVisitor, item: AuditItem) {
    match item {
        AuditItem::Price(price) => visitor.price(price.version, &price.model, &price.prices),
        AuditItem::Account(account) => visitor.account(account),
        AuditItem::Balance(balance) => visitor.balance(balance),
        AuditItem::Chain(chain) => visitor.chain(chain),
        AuditItem::Lot(lot) => visitor.lot(&lot),
        AuditItem::Lease(lease) => visitor.lease(lease),
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

async fn read(
    connection: &mut PgConnection,
    account: Option<AccountId>,
    sender: mpsc::Sender<Vec<AuditItem>>,
) -> Result<()> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await.map_err(while_running)?;
    // A long audit holds no lock that blocks other transactions, so it needs no timeouts.
    for setting in [
        "SET LOCAL statement_timeout = 0",
        "SET LOCAL idle_in_transaction_session_timeout = 0",
    ] {
        sqlx::query(setting)
            .execute(&mut *transaction)
            .await
            .map_err(while_running)?;
    }
    let mut out = Chunks {
        sender,
        chunk: Vec::new(),
    };
    read_prices(&mut transaction, &mut out).await?;
    read_ledgers(&mut transaction, account, &mut out).await?;
    out.send().await;
    transaction.commit().await.map_err(while_running)
}

async fn read_prices(connection: &mut PgConnection, out: &mut Chunks) -> Result<()> {
    let statement = sqlx::query("SELECT * FROM price_version ORDER BY version");
    let found = statement.fetch_all(connection).await.map_err(while_running)?;
    for row in &found {
        out.push(rows::whole::<PriceColumns, _>(row).map(|price| AuditItem::Price(Box::new(price))))
            .await;
    }
    Ok(())
}

/// Reads the ledgers account by account. Before each account, the cursor of each table is at the
/// first row of that account or of a later one.
async fn read_ledgers(
    connection: &mut PgConnection,
    only: Option<AccountId>,
    out: &mut Chunks,
) -> Result<()> {
    let scope = match only {
        None => "true".to_owned(),
        Some(account) => format!("account_id = '\\x{:032x}'", account.as_u128()),
    };
    let mut accounts = Table::open(connection, &ACCOUNTS, &scope).await?;
    let mut tables = Vec::new();
    for source in [&BALANCES, &CHAINS, &LOTS, &LEASES, &HOLDS, &REFUNDS, &LINES] {
        tables.push(Table::open(connection, source, &scope).await?);
    }
    // The transfers of a call precede its parts, and both precede its usage row.
    let mut calls = Vec::new();
    for source in [&TRANSFERS, &PARTS, &USAGE] {
        calls.push(Table::open(connection, source, &scope).await?);
    }
    while let Some(row) = accounts.next(connection).await? {
        let account: IdBytes = rows::get(&row, "account_id")?;
        out.push((ACCOUNTS.convert)(&row)).await;
        for table in &mut tables {
            table.show_up_to(Some(account), connection, out).await?;
        }
        while let Some(place) = next_table(&mut calls, account, connection, out).await? {
            if let Some(row) = calls[place].next(connection).await? {
                out.push((calls[place].source.convert)(&row)).await;
            }
        }
        out.push(Ok(AuditItem::AccountEnd)).await;
        if out.sender.is_closed() {
            return Ok(());
        }
    }
    for table in tables.iter_mut().chain(&mut calls) {
        table.show_up_to(None, connection, out).await?;
    }
    Ok(())
}

/// Returns the table with the first row of this account; if several rows belong to the same entry,
/// the first of their tables.
async fn next_table(
    tables: &mut [Table],
    account: IdBytes,
    connection: &mut PgConnection,
    out: &mut Chunks,
) -> Result<Option<usize>> {
    let mut first: Option<(Vec<u8>, usize)> = None;
    for (place, table) in tables.iter_mut().enumerate() {
        if let Some(entry) = table.entry_of(account, connection, out).await?
            && first.as_ref().is_none_or(|(lowest, _)| entry < *lowest)
        {
            first = Some((entry, place));
        }
    }
    Ok(first.map(|(_, place)| place))
}

/// Source of rows in account order. `{scope}` in `declare` is replaced by the filter.
struct Source {
    name: &'static str,
    declare: &'static str,
    /// Column with the id of the entry that a row belongs to; read for transfers, parts and usage
    /// rows.
    entry: &'static str,
    fetch: &'static str,
    convert: fn(&PgRow) -> Result<AuditItem>,
}

static ACCOUNTS: Source = Source {
    name: "account",
    declare:
        "DECLARE accounts CURSOR FOR SELECT account_id FROM (SELECT id AS account_id FROM account) AS ids
        WHERE {scope} ORDER BY account_id",
    entry: "account_id",
    fetch: "FETCH 1000 FROM accounts",
    convert: |row| {
        Ok(AuditItem::Account(AccountId::from_u128(rows::id(
            row,
            "account_id",
        )?)))
    },
};

static BALANCES: Source = Source {
    name: "ledger_account",
    declare: "DECLARE balances CURSOR FOR SELECT * FROM ledger_account WHERE {scope} ORDER BY account_id, kind",
    entry: "kind",
    fetch: "FETCH 1000 FROM balances",
    convert: |row| {
        Ok(AuditItem::Balance(LedgerBalance {
            account: rows::name(row, "kind", LedgerAccount::parse)?,
            balance: rows::credits(row, "balance")?,
        }))
    },
};

static CHAINS: Source = Source {
    name: "ledger_account",
    declare:
        "DECLARE chains CURSOR FOR SELECT account_id, chain_sequence, chain_previous, chain_hash, unchained
        FROM ledger_account WHERE kind = 'credits' AND {scope} ORDER BY account_id",
    entry: "account_id",
    fetch: "FETCH 1000 FROM chains",
    convert: |row| {
        let unchained: i64 = rows::get(row, "unchained")?;
        Ok(AuditItem::Chain(Chain {
            head: link(row, ["chain_sequence", "chain_previous", "chain_hash"])?,
            unchained: u64::try_from(unchained).map_err(super::error::corrupt)?,
        }))
    },
};

static LOTS: Source = Source {
    name: "credit_lot",
    declare: "DECLARE lots CURSOR FOR SELECT * FROM credit_lot WHERE {scope} ORDER BY account_id, id",
    entry: "id",
    fetch: "FETCH 1000 FROM lots",
    convert: |row| Ok(AuditItem::Lot(Box::new(rows::whole::<LotColumns, _>(row)?))),
};

static LEASES: Source = Source {
    name: "lease",
    declare: "DECLARE leases CURSOR FOR SELECT * FROM lease WHERE {scope} ORDER BY account_id, id",
    entry: "id",
    fetch: "FETCH 1000 FROM leases",
    convert: |row| {
        Ok(AuditItem::Lease(OpenLease {
            id: TransferId::from_u128(rows::id(row, "id")?),
            balance: rows::credits(row, "balance")?,
            in_flight: rows::credits(row, "in_flight")?,
            expires_at: rows::timestamp(row, "expires_at")?,
            reclaim_at: rows::timestamp(row, "reclaim_at")?,
        }))
    },
};

static HOLDS: Source = Source {
    name: "hold",
    declare: "DECLARE holds CURSOR FOR SELECT account_id, id, amount - returned AS amount, expires_at, allowance, plan_name, window_id FROM hold WHERE {scope} ORDER BY account_id, id",
    entry: "id",
    fetch: "FETCH 1000 FROM holds",
    convert: |row| {
        Ok(AuditItem::Hold(OpenHold {
            id: HoldId::from_u128(rows::id(row, "id")?),
            amount: rows::credits(row, "amount")?,
            allowance: rows::credits(row, "allowance")?,
            plan: plan_from(rows::get(row, "plan_name")?, rows::get(row, "window_id")?)?,
            expires_at: rows::timestamp(row, "expires_at")?,
        }))
    },
};

static TRANSFERS: Source = Source {
    name: "transfer",
    declare: "DECLARE transfers CURSOR FOR SELECT * FROM transfer WHERE {scope} ORDER BY account_id, entry_id, leg",
    entry: "entry_id",
    fetch: "FETCH 1000 FROM transfers",
    convert: |row| Ok(AuditItem::Transfer(transfer(row)?)),
};

static PARTS: Source = Source {
    name: "usage_part",
    declare: "DECLARE parts CURSOR FOR SELECT *, NULL::text AS canonical_model FROM usage_part WHERE {scope} ORDER BY account_id, id, number",
    entry: "id",
    fetch: "FETCH 1000 FROM parts",
    convert: |row| {
        let columns = PartColumns::from_row(row).map_err(super::error::corrupt)?;
        let (row, part) = columns.of_row()?;
        Ok(AuditItem::Part(row, Box::new(part)))
    },
};

static USAGE: Source = Source {
    name: "usage_row",
    declare: concat!(
        "DECLARE usage_rows CURSOR FOR SELECT ",
        usage_columns!(),
        " FROM usage_row WHERE {scope} ORDER BY account_id, id"
    ),
    entry: "id",
    fetch: "FETCH 1000 FROM usage_rows",
    convert: |row| Ok(AuditItem::Usage(Box::new(rows::whole::<UsageColumns, _>(row)?))),
};

static REFUNDS: Source = Source {
    name: "refund",
    declare: "DECLARE refunds CURSOR FOR SELECT * FROM refund WHERE {scope} ORDER BY account_id, id",
    entry: "id",
    fetch: "FETCH 1000 FROM refunds",
    convert: |row| Ok(AuditItem::Refund(Box::new(rows::whole::<RefundColumns, _>(row)?))),
};

static LINES: Source = Source {
    name: "batch_line",
    declare: "DECLARE lines CURSOR FOR SELECT * FROM batch_line WHERE {scope} ORDER BY account_id, batch_id, number",
    entry: "batch_id",
    fetch: "FETCH 1000 FROM lines",
    convert: |row| Ok(AuditItem::Line(rows::whole::<LineColumns, _>(row)?)),
};

/// Parses a row of `transfer`.
pub(super) fn transfer(row: &PgRow) -> Result<TransferRow> {
    let entry = rows::id(row, "entry_id")?;
    let subject = rows::name(row, "subject", |name| TransferSubject::parse(name, entry))?;
    let leg: i16 = rows::get(row, "leg")?;
    let version: Option<i64> = rows::get(row, "price_version")?;
    Ok(TransferRow {
        subject,
        leg: Leg::from_i16(leg).ok_or_else(|| super::error::corrupt(format!("unknown leg {leg}")))?,
        debit: rows::name(row, "debit", LedgerAccount::parse)?,
        credit: rows::name(row, "credit", LedgerAccount::parse)?,
        amount: rows::credits(row, "amount")?,
        created_at: rows::timestamp(row, "created_at")?,
        price_version: version.map(version_from),
        link: link(row, ["sequence", "prev_hash", "hash"])?,
    })
}

fn link(row: &PgRow, [sequence, previous, hash]: [&str; 3]) -> Result<Option<Link>> {
    link_from(
        rows::get(row, sequence)?,
        rows::get(row, previous)?,
        rows::get(row, hash)?,
    )
}

/// An open cursor with fetched rows that were not yet sent to the visitor.
struct Table {
    source: &'static Source,
    rows: VecDeque<PgRow>,
    ended: bool,
}

impl Table {
    async fn open(connection: &mut PgConnection, source: &'static Source, scope: &str) -> Result<Table> {
        let declare = source.declare.replace("{scope}", scope);
        let declare = sqlx::query(AssertSqlSafe(declare)).persistent(false);
        declare.execute(connection).await.map_err(while_running)?;
        Ok(Table {
            source,
            rows: VecDeque::new(),
            ended: false,
        })
    }

    async fn next(&mut self, connection: &mut PgConnection) -> Result<Option<PgRow>> {
        if self.rows.is_empty() && !self.ended {
            let fetch = sqlx::query(self.source.fetch).persistent(false);
            self.rows = fetch.fetch_all(connection).await.map_err(while_running)?.into();
            self.ended = self.rows.is_empty();
        }
        Ok(self.rows.pop_front())
    }

    /// Sends the rows of this account to the visitor. Earlier rows belong to no account and are
    /// reported as unreadable. Without an account, all remaining rows are reported as unreadable.
    async fn show_up_to(
        &mut self,
        account: Option<IdBytes>,
        connection: &mut PgConnection,
        out: &mut Chunks,
    ) -> Result<()> {
        while self.is_at(account, connection, out).await? {
            if let Some(row) = self.next(connection).await? {
                out.push((self.source.convert)(&row)).await;
            }
        }
        Ok(())
    }

    /// Returns the entry of the next row if the row belongs to this account.
    async fn entry_of(
        &mut self,
        account: IdBytes,
        connection: &mut PgConnection,
        out: &mut Chunks,
    ) -> Result<Option<Vec<u8>>> {
        if !self.is_at(Some(account), connection, out).await? {
            return Ok(None);
        }
        let front = self.rows.front();
        front.map(|row| rows::get(row, self.source.entry)).transpose()
    }

    /// Whether the next row belongs to this account. Earlier rows are reported as unreadable.
    async fn is_at(
        &mut self,
        account: Option<IdBytes>,
        connection: &mut PgConnection,
        out: &mut Chunks,
    ) -> Result<bool> {
        while let Some(row) = self.next(connection).await? {
            let owner: IdBytes = rows::get(&row, "account_id")?;
            if account.is_some_and(|account| owner >= account) {
                self.rows.push_front(row);
                return Ok(account == Some(owner));
            }
            let owner = AccountId::from_u128(u128::from_be_bytes(owner));
            let what = format!(
                "a row of {} belongs to {owner}, which does not exist",
                self.source.name
            );
            out.push(Ok(AuditItem::Unreadable(what))).await;
        }
        Ok(false)
    }
}

/// Sender of items to the visitor, in chunks.
struct Chunks {
    sender: mpsc::Sender<Vec<AuditItem>>,
    chunk: Vec<AuditItem>,
}

impl Chunks {
    async fn push(&mut self, item: Result<AuditItem>) {
        self.chunk
            .push(item.unwrap_or_else(|error| AuditItem::Unreadable(error.to_string())));
        if self.chunk.len() >= CHUNK {
            self.send().await;
        }
    }

    /// Sends the current chunk. If the receiver was dropped, the items are dropped;
    /// [`read_ledgers`] checks for that after each account.
    async fn send(&mut self) {
        let _ = self.sender.send(std::mem::take(&mut self.chunk)).await;
    }
}
