//! Lots and grants: written to the database first, as subscriptions are. What expires is taken from the book in memory
//! before that, so that no hold takes it meanwhile, and is put back when it is not written.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::audit::TransferSubject;
use tollgate_storage::lot::{Funds, Leaving, assign, expire, withdraw};
use tollgate_storage::{
    Balance, Grant, Lot, LotKind, LotStore, NewRefund, RefundOutcome, Result, StorageError,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Timestamp};

use super::account::conflict;
use super::books::Book;
use super::ledger::Transfer;
use super::{Core, Sqlite};
use crate::ids::lock;
use crate::rows::{LotColumns, corrupt, id_bytes, id_from, storage_error};

const LOTS: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE account_id = $1";
const WITH_REST: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE account_id = $1 AND remaining > 0";
const INSERT: &str = "INSERT INTO credit_lot (account_id, id, kind, amount, remaining, expired, withdrawn, priority, \
    expires_at, note, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const UPDATE: &str =
    "UPDATE credit_lot SET remaining = $3, expired = $4, withdrawn = $5 WHERE account_id = $1 AND id = $2";
const OVER: &str = "SELECT account_id FROM credit_lot WHERE remaining > 0 AND expires_at IS NOT NULL \
    AND expires_at <= $1 GROUP BY account_id ORDER BY min(expires_at) LIMIT $2";
// Each account's lots are looked up by their key.
const OWNER: &str = "SELECT account_id, kind FROM account CROSS JOIN credit_lot \
    WHERE credit_lot.account_id = account.id AND credit_lot.id = $1";
const GRANTED_BEFORE: &str = "SELECT account_id FROM transfer WHERE subject = 'grant' AND entry_id = $1";
const GRANTED: &str =
    "SELECT -sum(balance) FROM ledger_account WHERE account_id = $1 AND kind IN ('cash', 'expense:goodwill')";

#[async_trait]
impl LotStore for Sqlite {
    async fn lots(&self, account: AccountId, now: Timestamp) -> Result<Vec<Lot>> {
        let core = self.0.core.clone();
        self.carry_through(async move {
            core.expire_lots(account, now).await?;
            let read = core.read(move |connection| Box::pin(select(connection, LOTS, account)));
            let mut lots = read.await?;
            lots.sort_by(Lot::burns_before);
            Ok(lots)
        })
        .await
    }

    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let over = self.read(move |connection| Box::pin(with_lots_that_are_over(connection, now, limit)));
        let mut expired = 0;
        for account in over.await? {
            let core = self.0.core.clone();
            let work = async move { core.expire_lots(account, now).await };
            expired += self.carry_through(work).await?;
        }
        Ok(expired)
    }

    async fn withdraw(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Credits> {
        let core = self.0.core.clone();
        self.carry_through(async move { core.withdraw_lot(lot, total, at).await })
            .await
    }

    async fn refund(&self, new: NewRefund) -> Result<RefundOutcome> {
        let core = self.0.core.clone();
        self.carry_through(async move { core.give_back(new).await }).await
    }
}

impl Core {
    /// Assigns what was spent and has lots expire whose time is over; answers of how many something expired.
    async fn expire_lots(&self, account: AccountId, now: Timestamp) -> Result<u64> {
        let left = self.change_lots(account, now, |lots, funds| {
            let held = match lots.iter().any(|lot| lot.is_over(now)) {
                true => self.holds.of(account),
                false => Vec::new(),
            };
            let held_before = |instant: Timestamp| {
                let earlier = held.iter().filter(|(at, _)| *at < instant);
                Credits::from_nanos(earlier.map(|(_, credits)| credits).sum())
            };
            expire(lots, funds, now, held_before)
        });
        Ok(left.await?.len() as u64)
    }

    /// Assigns what was spent, then takes back what is left of a purchase, at most so much altogether.
    async fn withdraw_lot(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Credits> {
        let owner = self
            .read(move |connection| Box::pin(owner(connection, lot)))
            .await?;
        let (account, kind) = owner.ok_or_else(|| StorageError::not_found(lot))?;
        if kind != LotKind::Purchase {
            return Err(conflict("the lot was not paid for"));
        }
        let left = self.change_lots(account, at, |lots, funds| {
            withdraw(lots, funds, lot, total).into_iter().collect()
        });
        Ok(left
            .await?
            .first()
            .map_or(Credits::ZERO, |leaving| leaving.amount))
    }

    /// Assigns what was spent, then lets `take` take from the lots; answers what it took.
    async fn change_lots(
        &self,
        account: AccountId,
        at: Timestamp,
        take: impl FnOnce(&mut [Lot], Funds) -> Vec<Leaving> + Send,
    ) -> Result<Vec<Leaving>> {
        let _one_at_a_time = self.changing.lock().await;
        let book = self.book(account)?;
        let before = self.lots_with_rest(account).await?;
        let mut lots = before.clone();
        let leaving = {
            let mut sums = lock(&book.sums);
            let funds = sums.funds();
            assign(&mut lots, funds);
            let leaving = take(&mut lots, funds);
            sums.credits -= total(&leaving);
            leaving
        };
        let changed = changed(&before, lots);
        if !changed.is_empty() {
            self.write_leaving(account, &book, changed, leaving.clone(), at)
                .await?;
        }
        Ok(leaving)
    }

    /// Writes what became of lots; what has left the book in memory returns to it when that fails.
    async fn write_leaving(
        &self,
        account: AccountId,
        book: &Book,
        changed: Vec<Lot>,
        leaving: Vec<Leaving>,
        at: Timestamp,
    ) -> Result<()> {
        let left = total(&leaving);
        let write = self.write(
            move |connection| {
                Box::pin(async move {
                    update(connection, &changed).await?;
                    for Leaving { entry, leg, amount } in leaving {
                        let transfer = Transfer {
                            account,
                            subject: TransferSubject::Lot(entry),
                            leg,
                            amount,
                            at,
                        };
                        transfer.carry_out(connection).await?;
                    }
                    Ok(())
                })
            },
            |()| (),
        );
        let written = write.await;
        if written.is_err() {
            lock(&book.sums).credits += left;
        }
        written
    }

    pub(super) async fn grant_lot(&self, grant: Grant) -> Result<Balance> {
        if grant.amount <= Credits::ZERO {
            return Err(conflict("the amount of a grant is not above zero"));
        }
        let _one_at_a_time = self.changing.lock().await;
        let book = self.book(grant.account)?;
        let before = self.lots_with_rest(grant.account).await?;
        let mut lots = before.clone();
        assign(&mut lots, lock(&book.sums).funds());
        let (changed, amount) = (changed(&before, lots), grant.amount.nanos());
        self.write(
            move |connection| Box::pin(write_grant(connection, grant, changed)),
            move |is_new| {
                let mut sums = lock(&book.sums);
                sums.credits += if is_new { amount } else { 0 };
                sums.balance()
            },
        )
        .await
    }

    /// Lots that have something left.
    pub(super) async fn lots_with_rest(&self, account: AccountId) -> Result<Vec<Lot>> {
        self.read(move |connection| Box::pin(select(connection, WITH_REST, account)))
            .await
    }
}

fn total(leaving: &[Leaving]) -> i64 {
    leaving.iter().map(|leaving| leaving.amount.nanos()).sum()
}

/// Those of the lots that are not as they were.
pub(super) fn changed(before: &[Lot], lots: Vec<Lot>) -> Vec<Lot> {
    lots.into_iter().filter(|lot| !before.contains(lot)).collect()
}

async fn select(
    connection: &mut SqliteConnection,
    statement: &'static str,
    account: AccountId,
) -> Result<Vec<Lot>> {
    let rows: Vec<LotColumns> = sqlx::query_as(statement)
        .bind(id_bytes(account.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Lot::try_from).collect()
}

async fn with_lots_that_are_over(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<AccountId>> {
    let found: Vec<Vec<u8>> = sqlx::query_scalar(OVER)
        .bind(now.as_micros())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    found
        .iter()
        .map(|id| id_from(id).map(AccountId::from_u128))
        .collect()
}

async fn owner(connection: &mut SqliteConnection, lot: TransferId) -> Result<Option<(AccountId, LotKind)>> {
    let found: Option<(Vec<u8>, String)> = sqlx::query_as(OWNER)
        .bind(id_bytes(lot.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    let known = |(account, kind): (Vec<u8>, String)| {
        let kind = LotKind::parse(&kind).ok_or_else(|| corrupt(format!("kind of lot '{kind}'")))?;
        Ok((AccountId::from_u128(id_from(&account)?), kind))
    };
    found.map(known).transpose()
}

/// Writes what became of lots.
pub(super) async fn update(connection: &mut SqliteConnection, lots: &[Lot]) -> Result<()> {
    for lot in lots {
        let row = sqlx::query(UPDATE)
            .bind(id_bytes(lot.account.as_u128()))
            .bind(id_bytes(lot.id.as_u128()))
            .bind(lot.remaining.nanos())
            .bind(lot.expired.nanos())
            .bind(lot.withdrawn.nanos());
        row.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

/// Writes a lot that is new.
pub(super) async fn insert(connection: &mut SqliteConnection, lot: &Lot) -> Result<()> {
    let row = sqlx::query(INSERT)
        .bind(id_bytes(lot.account.as_u128()))
        .bind(id_bytes(lot.id.as_u128()))
        .bind(lot.terms.kind.as_str())
        .bind(lot.amount.nanos())
        .bind(lot.remaining.nanos())
        .bind(lot.expired.nanos())
        .bind(lot.withdrawn.nanos())
        .bind(i64::from(lot.terms.priority))
        .bind(lot.terms.expires_at.map(Timestamp::as_micros))
        .bind(lot.terms.note.clone())
        .bind(lot.created_at.as_micros());
    row.execute(connection).await.map(drop).map_err(storage_error)
}

/// Writes the grant and what became of the lots before it; answers whether it is new.
async fn write_grant(connection: &mut SqliteConnection, grant: Grant, changed: Vec<Lot>) -> Result<bool> {
    let (account, id) = (id_bytes(grant.account.as_u128()), id_bytes(grant.id.as_u128()));
    let before: Option<Vec<u8>> = sqlx::query_scalar(GRANTED_BEFORE)
        .bind(id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    match before {
        Some(owner) if owner == account => return Ok(false),
        Some(_) => return Err(conflict(format!("{} was granted to another account", grant.id))),
        None => {}
    }
    let granted: i64 = sqlx::query_scalar(GRANTED)
        .bind(account)
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if granted.checked_add(grant.amount.nanos()).is_none() {
        return Err(conflict("the sum of all grants does not fit"));
    }
    update(connection, &changed).await?;
    let transfer = Transfer {
        account: grant.account,
        subject: TransferSubject::Grant(grant.id),
        leg: grant.terms.kind.leg(),
        amount: grant.amount,
        at: grant.at,
    };
    transfer.carry_out(connection).await?;
    let lot = Lot::new(grant.id, grant.account, grant.amount, grant.terms, grant.at);
    insert(connection, &lot).await?;
    Ok(true)
}

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOTS,
    WITH_REST,
    INSERT,
    UPDATE,
    OVER,
    OWNER,
    GRANTED_BEFORE,
    GRANTED,
];
