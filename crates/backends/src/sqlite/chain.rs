//! Appends transfers to the hash chains of their accounts. The transaction that inserts the
//! transfers also updates the chain end in `ledger_account`, so that a recovery after a crash
//! continues from the stored end.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tollgate_storage::audit::{Leg, TransferRow, TransferSubject};
use tollgate_storage::subscription::window_entry;
use tollgate_storage::{Link, Refund, Result};
use tollgate_types::{AccountId, Credits, Timestamp};

use super::batch::{Batch, ResolvedCall, Shrunk, Step};
use super::bulk::{Bulk, Values};
use super::ledger::Transfer;
use crate::ids::IdMap;
use crate::journal::record::{Hold, Window};
use crate::rows::{corrupt, id_bytes, id_from, link_from, storage_error};

pub(super) const HEAD: &str = "SELECT account_id, chain_sequence, chain_previous, chain_hash FROM ledger_account \
    WHERE account_id = $1 AND kind = 'credits'";
pub(super) const SET_HEAD: &str = "UPDATE ledger_account SET chain_sequence = $2, chain_previous = $3, chain_hash = $4 \
    WHERE account_id = $1 AND kind = 'credits'";
const HEADS: &str = "SELECT account_id, chain_sequence, chain_previous, chain_hash FROM (";
const HEADS_TAIL: &str = ") AS wanted CROSS JOIN ledger_account AS account \
    WHERE account.account_id = wanted.column1 AND account.kind = 'credits'";

/// Maximum number of chain ends cached between transactions, to avoid repeated lookups.
const MAX_REMEMBERED: usize = 1 << 16;

/// Cache of chain ends.
pub(super) struct Heads {
    statement: Bulk,
    known: IdMap<AccountId, Option<Link>>,
}

/// Transfers of a batch with their links.
#[derive(Default)]
pub(super) struct Chained {
    /// All transfers except those of plain calls.
    pub(super) rows: Vec<(AccountId, TransferRow)>,
    /// For each resolved call: if the call is plain, its first sequence number and the range of its
    /// hashes in `hashes`; otherwise zeros.
    plain: Vec<(i64, usize, usize)>,
    /// For each plain call: the previous hash, then the hashes of its legs.
    hashes: Vec<u8>,
    /// New chain ends, in table order.
    pub(super) heads: Vec<(AccountId, Link)>,
}

impl Heads {
    pub(super) fn new() -> Heads {
        Heads {
            statement: Bulk::new(HEADS, 1, HEADS_TAIL),
            known: IdMap::default(),
        }
    }

    /// Clears the cache. Required after a rollback, and after other statements wrote transfers.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Links the transfers of the batch in the order of the journal. Returns `Corrupt` if an
    /// account has no balances.
    pub(super) async fn chain(
        &mut self,
        connection: &mut SqliteConnection,
        batch: &Batch,
    ) -> Result<Chained> {
        let accounts = batch.accounts();
        if self.known.len() + accounts.len() > MAX_REMEMBERED {
            self.forget();
        }
        let unknown = accounts
            .iter()
            .filter(|account| !self.known.contains_key(account));
        let unknown: Vec<AccountId> = unknown.copied().collect();
        let bind = |account: &AccountId, row: &mut Values| {
            row.id(account.as_u128());
        };
        for row in &self.statement.fetch(connection, &unknown, bind).await? {
            let (account, link) = head(row)?;
            self.known.insert(account, link);
        }
        let mut chained = Chained::default();
        for step in batch.steps() {
            let account = step.account();
            let end = self.known.get_mut(&account);
            chained.step(
                step,
                end.ok_or_else(|| corrupt(format!("{account} has no balances")))?,
            );
        }
        let end = |account: AccountId| Some((account, (*self.known.get(&account)?)?));
        chained.heads.extend(accounts.into_iter().filter_map(end));
        Ok(chained)
    }

    /// Returns the statement that reads chain ends, for the test that prepares it.
    #[cfg(test)]
    pub(super) fn bulk(&self) -> &Bulk {
        &self.statement
    }
}

impl Chained {
    /// Returns the sequence number of the first leg of a plain call, and the previous hash followed
    /// by the hashes of its legs.
    pub(super) fn plain(&self, call: usize) -> (i64, &[u8]) {
        let (sequence, from, to) = self.plain.get(call).copied().unwrap_or_default();
        (sequence, self.hashes.get(from..to).unwrap_or_default())
    }

    fn step(&mut self, step: Step<'_>, end: &mut Option<Link>) {
        match step {
            Step::Stored(hold) => {
                for (leg, amount) in hold_legs(hold) {
                    self.push(hold.account, call_leg(hold, leg, amount, hold.created_at), end);
                }
            }
            Step::Resolved(call) if call.is_plain() => self.plain_call(call, end),
            Step::Resolved(call) => {
                let hold = &call.hold;
                self.plain.push((0, 0, 0));
                let held = hold_legs(hold).into_iter().filter(|_| !call.is_stored);
                for (leg, amount) in held {
                    self.push(hold.account, call_leg(hold, leg, amount, hold.created_at), end);
                }
                for (leg, amount) in settled_legs(call) {
                    let row = call_leg(hold, leg, amount, call.settlement.ended_at);
                    self.push(hold.account, row, end);
                }
            }
            Step::Window(window) => {
                for transfer in window_transfers(window) {
                    self.push(window.account, transfer.row(), end);
                }
            }
            Step::Shrunk(Shrunk { hold, shrink }) => {
                let leg = Leg::ReleaseEarly(shrink.returned.times - 1);
                let row = call_leg(hold, leg, shrink.amount.nanos(), shrink.at);
                self.push(hold.account, row, end);
            }
            Step::Refund(refund) => {
                for transfer in refund_transfers(refund) {
                    self.push(refund.account, transfer.row(), end);
                }
            }
        }
    }

    fn push(&mut self, account: AccountId, mut row: TransferRow, end: &mut Option<Link>) {
        if row.amount.is_zero() {
            return;
        }
        *end = Some(row.link_after(account, *end));
        row.link = *end;
        self.rows.push((account, row));
    }

    fn plain_call(&mut self, call: &ResolvedCall, end: &mut Option<Link>) {
        let (hold, settlement) = (&call.hold, &call.settlement);
        let (amount, charge) = (hold.amount.nanos(), settlement.charge.nanos());
        let from = self.hashes.len();
        let mut first = 0;
        for (leg, amount, at) in [
            (Leg::Hold, amount, hold.created_at),
            (Leg::Settle, charge, settlement.ended_at),
            (Leg::Release, amount - charge, settlement.ended_at),
        ] {
            if amount == 0 {
                continue;
            }
            let link = call_leg(hold, leg, amount, at).link_after(hold.account, *end);
            if self.hashes.len() == from {
                first = link.sequence;
                self.hashes.extend_from_slice(&link.previous.0);
            }
            self.hashes.extend_from_slice(&link.hash.0);
            *end = Some(link);
        }
        self.plain.push((first, from, self.hashes.len()));
    }
}

fn hold_legs(hold: &Hold) -> [(Leg, i64); 2] {
    [
        (Leg::Hold, hold.credits()),
        (Leg::HoldAllowance, hold.allowance()),
    ]
}

fn settled_legs(call: &ResolvedCall) -> [(Leg, i64); 6] {
    let split = call.hold.split(call.settlement.charge, call.week);
    [
        (Leg::Settle, split.paid),
        (Leg::Release, split.released),
        (Leg::Overrun, call.settlement.overrun.nanos()),
        (Leg::SettleIncluded, split.included),
        (Leg::ReleaseAllowance, split.returned),
        (Leg::ReleaseBreakage, split.breakage),
    ]
}

fn call_leg(hold: &Hold, leg: Leg, amount: i64, at: Timestamp) -> TransferRow {
    let (debit, credit) = leg.sides();
    TransferRow {
        subject: TransferSubject::Hold(hold.id),
        leg,
        debit,
        credit,
        amount: Credits::from_nanos(amount),
        created_at: at,
        price_version: Some(hold.price_version),
        link: None,
    }
}

/// Returns the transfers that close the previous week, if any, and open the next one.
fn window_transfers(window: &Window) -> impl Iterator<Item = Transfer> {
    let closed = window.closed.map(|week| (week, Leg::CloseWindow));
    let opened = (window.opened, Leg::OpenWindow);
    closed
        .into_iter()
        .chain([opened])
        .map(|((number, amount), leg)| Transfer {
            account: window.account,
            subject: TransferSubject::Window(window_entry(window.subscription, number)),
            leg,
            amount,
            at: window.at,
        })
}

/// Returns the transfers of a refund: to credits, then to the allowance.
fn refund_transfers(refund: &Refund) -> [Transfer; 2] {
    let parts = [
        (Leg::Refund, refund.credits),
        (Leg::RefundAllowance, refund.allowance),
    ];
    parts.map(|(leg, amount)| Transfer {
        account: refund.account,
        subject: TransferSubject::Refund(refund.id),
        leg,
        amount,
        at: refund.created_at,
    })
}

fn head(row: &SqliteRow) -> Result<(AccountId, Option<Link>)> {
    let account = id_from(row.try_get(0).map_err(storage_error)?)?;
    let link = link_from(
        row.try_get(1).map_err(storage_error)?,
        row.try_get(2).map_err(storage_error)?,
        row.try_get(3).map_err(storage_error)?,
    )?;
    Ok((AccountId::from_u128(account), link))
}

/// Links a transfer to its account's chain and stores the new chain end. Returns the transfer with
/// its link; the caller inserts the row.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    account: AccountId,
    row: TransferRow,
) -> Result<TransferRow> {
    let found = sqlx::query(HEAD)
        .bind(id_bytes(account.as_u128()))
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    let (_, end) = head(&found)?;
    let link = row.link_after(account, end);
    let moved = sqlx::query(SET_HEAD)
        .bind(id_bytes(account.as_u128()))
        .bind(link.sequence)
        .bind(link.previous.0.to_vec())
        .bind(link.hash.0.to_vec());
    moved.execute(connection).await.map_err(storage_error)?;
    Ok(TransferRow {
        link: Some(link),
        ..row
    })
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[HEAD, SET_HEAD];
