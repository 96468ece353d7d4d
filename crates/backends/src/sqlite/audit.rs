//! Shows the books as one read transaction sees them.

use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tokio::sync::mpsc;
use tollgate_storage::audit::{
    AuditVisitor, LedgerAccount, LedgerBalance, Leg, OpenHold, TransferRow, TransferSubject,
};
use tollgate_storage::{Chain, Link, Lot, PriceRecord, Refund, Result, UsageRow};
use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use super::usage::usage_columns;
use super::writer::execute;
use super::{Core, stopped};
use crate::rows::{
    LotColumns, PriceColumns, RefundColumns, UsageColumns, corrupt, id_bytes, id_from, link_from, plan_from,
    quantity_from, storage_error, version_from,
};

const PRICES: &str = "SELECT version, model, prices, created_at FROM price_version ORDER BY version";
const ACCOUNTS: &str = "SELECT id FROM account ORDER BY id";
const BALANCES: &str = "SELECT kind, balance FROM ledger_account WHERE account_id = $1";
const LOTS: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE account_id = $1";
const HOLDS: &str =
    "SELECT id, amount, expires_at, allowance, plan_name, window_id FROM hold WHERE account_id = $1";
const CHAIN: &str = "SELECT chain_sequence, chain_previous, chain_hash, unchained FROM ledger_account \
    WHERE account_id = $1 AND kind = 'credits'";
const TRANSFERS: &str = "SELECT entry_id, leg, subject, debit, credit, amount, created_at, price_version, sequence, \
    prev_hash, hash FROM transfer WHERE account_id = $1";
const USAGE: &str = concat!(
    "SELECT ",
    usage_columns!(),
    " FROM usage_row WHERE usage_row.account_id = $1"
);
const REFUNDS: &str = "SELECT id, account_id, hold_id, credits, allowance, reason, created_at FROM refund WHERE account_id = $1";

/// How many things travel to the visitor together.
const TOGETHER: usize = 256;
/// How many bundles may be on their way.
const ON_THE_WAY: usize = 4;

/// Something to be shown.
enum Shown {
    Price(Box<PriceRecord>),
    Account(AccountId),
    Balance(LedgerBalance),
    Chain(Chain),
    Lot(Box<Lot>),
    Hold(OpenHold),
    Transfer(TransferRow),
    Usage(Box<UsageRow>),
    Refund(Box<Refund>),
    AccountEnd,
    Unreadable(String),
}

/// Shows the database. The reading is done by a task of the engine; the visitor stays with the caller.
pub(super) async fn audit(core: &Core, visitor: &mut dyn AuditVisitor) -> Result<()> {
    let (send, mut receive) = mpsc::channel(ON_THE_WAY);
    let reading = core.read(move |connection| {
        Box::pin(async move {
            execute(connection, "BEGIN").await?;
            let shown = show_all(&mut *connection, Shower::new(send)).await;
            execute(connection, "COMMIT").await?;
            shown
        })
    });
    let showing = async {
        while let Some(bundle) = receive.recv().await {
            for shown in bundle {
                show(visitor, shown);
            }
        }
        Ok(())
    };
    futures_util::future::try_join(reading, showing).await.map(|_| ())
}

fn show(visitor: &mut dyn AuditVisitor, shown: Shown) {
    match shown {
        Shown::Price(record) => visitor.price(record.version, &record.model, &record.prices),
        Shown::Account(account) => visitor.account(account),
        Shown::Balance(balance) => visitor.balance(balance),
        Shown::Chain(chain) => visitor.chain(chain),
        Shown::Lot(lot) => visitor.lot(&lot),
        Shown::Hold(hold) => visitor.hold(hold),
        Shown::Transfer(transfer) => visitor.transfer(transfer),
        Shown::Usage(row) => visitor.usage(&row),
        Shown::Refund(refund) => visitor.refund(&refund),
        Shown::AccountEnd => visitor.account_end(),
        Shown::Unreadable(what) => visitor.unreadable(what),
    }
}

/// Bundles what is to be shown.
struct Shower {
    send: mpsc::Sender<Vec<Shown>>,
    bundle: Vec<Shown>,
}

impl Shower {
    fn new(send: mpsc::Sender<Vec<Shown>>) -> Shower {
        Shower {
            send,
            bundle: Vec::with_capacity(TOGETHER),
        }
    }

    async fn show(&mut self, shown: Shown) -> Result<()> {
        self.bundle.push(shown);
        if self.bundle.len() >= TOGETHER {
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        let bundle = std::mem::replace(&mut self.bundle, Vec::with_capacity(TOGETHER));
        self.send.send(bundle).await.map_err(stopped)
    }
}

async fn show_all(connection: &mut SqliteConnection, mut shower: Shower) -> Result<()> {
    show_rows(connection, &mut shower, PRICES, None, price).await?;
    let accounts: Vec<Vec<u8>> = sqlx::query_scalar(ACCOUNTS)
        .fetch_all(&mut *connection)
        .await
        .map_err(storage_error)?;
    for id in accounts {
        let account = match id_from(&id) {
            Ok(account) => AccountId::from_u128(account),
            Err(error) => {
                shower.show(Shown::Unreadable(error.to_string())).await?;
                continue;
            }
        };
        shower.show(Shown::Account(account)).await?;
        show_rows(connection, &mut shower, BALANCES, Some(account), balance).await?;
        show_rows(connection, &mut shower, CHAIN, Some(account), chain).await?;
        show_rows(connection, &mut shower, LOTS, Some(account), lot).await?;
        show_rows(connection, &mut shower, HOLDS, Some(account), open_hold).await?;
        show_rows(connection, &mut shower, TRANSFERS, Some(account), transfer).await?;
        show_rows(connection, &mut shower, USAGE, Some(account), usage).await?;
        show_rows(connection, &mut shower, REFUNDS, Some(account), refund).await?;
        shower.show(Shown::AccountEnd).await?;
    }
    shower.send().await
}

/// Shows the rows of a statement. What cannot be read is shown as such; a failure of the engine ends the audit.
async fn show_rows(
    connection: &mut SqliteConnection,
    shower: &mut Shower,
    statement: &'static str,
    account: Option<AccountId>,
    read: fn(&SqliteRow) -> Result<Shown>,
) -> Result<()> {
    let mut query = sqlx::query(statement);
    if let Some(account) = account {
        query = query.bind(id_bytes(account.as_u128()));
    }
    let mut rows = query.fetch(connection);
    while let Some(row) = rows.try_next().await.map_err(storage_error)? {
        let shown = read(&row).unwrap_or_else(|error| Shown::Unreadable(error.to_string()));
        shower.show(shown).await?;
    }
    Ok(())
}

fn price(row: &SqliteRow) -> Result<Shown> {
    let columns = PriceColumns::from_row(row).map_err(storage_error)?;
    columns.try_into().map(|record| Shown::Price(Box::new(record)))
}

fn balance(row: &SqliteRow) -> Result<Shown> {
    Ok(Shown::Balance(LedgerBalance {
        account: ledger_account(row, "kind")?,
        balance: Credits::from_nanos(row.try_get("balance").map_err(storage_error)?),
    }))
}

fn chain(row: &SqliteRow) -> Result<Shown> {
    let unchained = quantity_from(row.try_get("unchained").map_err(storage_error)?)?;
    let head = link(row, ["chain_sequence", "chain_previous", "chain_hash"])?;
    Ok(Shown::Chain(Chain { head, unchained }))
}

fn link(row: &SqliteRow, [sequence, previous, hash]: [&str; 3]) -> Result<Option<Link>> {
    link_from(
        row.try_get(sequence).map_err(storage_error)?,
        row.try_get(previous).map_err(storage_error)?,
        row.try_get(hash).map_err(storage_error)?,
    )
}

fn lot(row: &SqliteRow) -> Result<Shown> {
    let columns = LotColumns::from_row(row).map_err(storage_error)?;
    Lot::try_from(columns).map(|lot| Shown::Lot(Box::new(lot)))
}

fn open_hold(row: &SqliteRow) -> Result<Shown> {
    Ok(Shown::Hold(OpenHold {
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

fn transfer(row: &SqliteRow) -> Result<Shown> {
    transfer_row(row).map(Shown::Transfer)
}

/// A row of `transfer`.
pub(super) fn transfer_row(row: &SqliteRow) -> Result<TransferRow> {
    let entry = id(row, "entry_id")?;
    let subject: &str = row.try_get("subject").map_err(storage_error)?;
    let leg: i64 = row.try_get("leg").map_err(storage_error)?;
    let version: Option<i64> = row.try_get("price_version").map_err(storage_error)?;
    Ok(TransferRow {
        subject: TransferSubject::parse(subject, entry)
            .ok_or_else(|| corrupt(format!("transfer subject '{subject}'")))?,
        leg: i16::try_from(leg)
            .ok()
            .and_then(Leg::from_i16)
            .ok_or_else(|| corrupt(format!("leg {leg}")))?,
        debit: ledger_account(row, "debit")?,
        credit: ledger_account(row, "credit")?,
        amount: Credits::from_nanos(row.try_get("amount").map_err(storage_error)?),
        created_at: Timestamp::from_micros(row.try_get("created_at").map_err(storage_error)?),
        price_version: version.map(version_from),
        link: link(row, ["sequence", "prev_hash", "hash"])?,
    })
}

fn usage(row: &SqliteRow) -> Result<Shown> {
    let columns = UsageColumns::from_row(row).map_err(storage_error)?;
    UsageRow::try_from(columns).map(|row| Shown::Usage(Box::new(row)))
}

fn refund(row: &SqliteRow) -> Result<Shown> {
    let columns = RefundColumns::from_row(row).map_err(storage_error)?;
    Refund::try_from(columns).map(|refund| Shown::Refund(Box::new(refund)))
}

fn id(row: &SqliteRow, column: &str) -> Result<u128> {
    id_from(row.try_get(column).map_err(storage_error)?)
}

fn ledger_account(row: &SqliteRow, column: &str) -> Result<LedgerAccount> {
    let name: &str = row.try_get(column).map_err(storage_error)?;
    LedgerAccount::parse(name).ok_or_else(|| corrupt(format!("ledger account '{name}'")))
}

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    PRICES, ACCOUNTS, BALANCES, CHAIN, LOTS, HOLDS, TRANSFERS, USAGE, REFUNDS,
];
