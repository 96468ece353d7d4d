//! Implements [`LotStore`] on SQLite. A change is committed to the database before the method
//! returns. Expired and withdrawn credits leave the balance in memory before the write, so that no
//! hold can use them. They are restored if the write fails.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::audit::TransferSubject;
use tollgate_storage::lot::{Funds, LotRemoval, Withdrawal, assign, expire, withdraw};
use tollgate_storage::{
    Balance, Grant, Lot, LotKind, LotStore, NewRefund, RefundOutcome, Result, StorageError,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Timestamp};

use super::account::conflict;
use super::balances::AccountBalances;
use super::ledger::Transfer;
use super::{Core, Sqlite};
use crate::ids::lock;
use crate::rows::{LotColumns, corrupt, id_bytes, id_from, storage_error};

const LOTS: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE account_id = $1";
const WITH_REMAINING: &str = "SELECT account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note, \
    created_at FROM credit_lot WHERE account_id = $1 AND remaining > 0";
const INSERT: &str = "INSERT INTO credit_lot (account_id, id, kind, amount, remaining, expired, withdrawn, priority, \
    expires_at, note, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const UPDATE: &str =
    "UPDATE credit_lot SET remaining = $3, expired = $4, withdrawn = $5 WHERE account_id = $1 AND id = $2";
const ACCOUNTS_WITH_EXPIRED_LOTS: &str = "SELECT account_id FROM credit_lot WHERE remaining > 0 AND expires_at IS NOT NULL \
    AND expires_at <= $1 GROUP BY account_id ORDER BY min(expires_at) LIMIT $2";
// Joins `account` first, so that the lookup uses the primary key `(account_id, id)`.
const OWNER: &str = "SELECT account_id, kind FROM account CROSS JOIN credit_lot \
    WHERE credit_lot.account_id = account.id AND credit_lot.id = $1";
const GRANTED_BEFORE: &str = "SELECT account_id FROM transfer WHERE subject = 'grant' AND entry_id = $1";
const GRANTED: &str =
    "SELECT -sum(balance) FROM ledger_account WHERE account_id = $1 AND kind IN ('cash', 'expense:goodwill')";

#[async_trait]
impl LotStore for Sqlite {
    async fn lots(&self, account: AccountId, now: Timestamp) -> Result<Vec<Lot>> {
        let core = self.0.core.clone();
        self.run_to_completion(async move {
            core.expire_lots(account, now).await?;
            let read = core.read(move |connection| Box::pin(select(connection, LOTS, account)));
            let mut lots = read.await?;
            lots.sort_by(Lot::burn_order);
            Ok(lots)
        })
        .await
    }

    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let over = self.read(move |connection| Box::pin(accounts_with_expired_lots(connection, now, limit)));
        let mut expired = 0;
        for account in over.await? {
            let core = self.0.core.clone();
            let work = async move { core.expire_lots(account, now).await };
            expired += self.run_to_completion(work).await?;
        }
        Ok(expired)
    }

    async fn withdraw(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Withdrawal> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.withdraw_lot(lot, total, at).await })
            .await
    }

    async fn refund(&self, new: NewRefund) -> Result<RefundOutcome> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.refund_call(new).await })
            .await
    }
}

impl Core {
    /// Assigns spending to the lots and removes the credits of expired lots. Returns the number of
    /// lots that lost credits.
    async fn expire_lots(&self, account: AccountId, now: Timestamp) -> Result<u64> {
        let left = self.change_lots(account, now, |lots, funds| {
            let held = match lots.iter().any(|lot| lot.is_expired(now)) {
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

    /// Assigns spending to the lots, then withdraws the unused credits of a purchase or promotion,
    /// up to `total` over all withdrawals. Returns `NotFound` for an unknown lot and `Conflict` for
    /// the lot of a refund.
    async fn withdraw_lot(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Withdrawal> {
        let owner = self
            .read(move |connection| Box::pin(owner(connection, lot)))
            .await?;
        let (account, kind) = owner.ok_or_else(|| StorageError::not_found(lot))?;
        if kind.withdrawal().is_none() {
            return Err(conflict("a refund cannot be withdrawn"));
        }
        let left = self.change_lots(account, at, |lots, funds| {
            withdraw(lots, funds, lot, total).into_iter().collect()
        });
        let amount = left
            .await?
            .first()
            .map_or(Credits::ZERO, |removals| removals.amount);
        Ok(Withdrawal { account, amount })
    }

    /// Assigns spending to the lots, then calls `take`, which removes credits from the lots.
    /// Returns the removals.
    async fn change_lots(
        &self,
        account: AccountId,
        at: Timestamp,
        take: impl FnOnce(&mut [Lot], Funds) -> Vec<LotRemoval> + Send,
    ) -> Result<Vec<LotRemoval>> {
        let _change_guard = self.changing.lock().await;
        let account_balances = self.account_balances(account)?;
        let before = self.lots_with_remaining(account).await?;
        let mut lots = before.clone();
        let removals = {
            let mut sums = lock(&account_balances.sums);
            let funds = sums.funds();
            assign(&mut lots, funds);
            let removals = take(&mut lots, funds);
            sums.credits -= total(&removals);
            removals
        };
        let changed = changed(&before, lots);
        if !changed.is_empty() {
            self.write_removals(account, &account_balances, changed, removals.clone(), at)
                .await?;
        }
        Ok(removals)
    }

    /// Writes changed lots and the transfers of removals. If the write fails, restores the removed
    /// credits in memory.
    async fn write_removals(
        &self,
        account: AccountId,
        account_balances: &AccountBalances,
        changed: Vec<Lot>,
        removals: Vec<LotRemoval>,
        at: Timestamp,
    ) -> Result<()> {
        let left = total(&removals);
        let write = self.write(
            move |connection| {
                Box::pin(async move {
                    update(connection, &changed).await?;
                    for LotRemoval { entry, leg, amount } in removals {
                        let transfer = Transfer {
                            account,
                            subject: TransferSubject::Lot(entry),
                            leg,
                            amount,
                            at,
                        };
                        transfer.apply(connection).await?;
                    }
                    Ok(())
                })
            },
            |()| (),
        );
        let written = write.await;
        if written.is_err() {
            lock(&account_balances.sums).credits += left;
        }
        written
    }

    pub(super) async fn grant_lot(&self, grant: Grant) -> Result<Balance> {
        if grant.amount <= Credits::ZERO {
            return Err(conflict("the grant amount must be positive"));
        }
        let _change_guard = self.changing.lock().await;
        let account_balances = self.account_balances(grant.account)?;
        let before = self.lots_with_remaining(grant.account).await?;
        let mut lots = before.clone();
        assign(&mut lots, lock(&account_balances.sums).funds());
        let (changed, amount) = (changed(&before, lots), grant.amount.nanos());
        self.write(
            move |connection| Box::pin(write_grant(connection, grant, changed)),
            move |is_new| {
                let mut sums = lock(&account_balances.sums);
                sums.credits += if is_new { amount } else { 0 };
                sums.balance()
            },
        )
        .await
    }

    /// Returns the account's lots with remaining credits.
    pub(super) async fn lots_with_remaining(&self, account: AccountId) -> Result<Vec<Lot>> {
        self.read(move |connection| Box::pin(select(connection, WITH_REMAINING, account)))
            .await
    }
}

fn total(removals: &[LotRemoval]) -> i64 {
    removals.iter().map(|removals| removals.amount.nanos()).sum()
}

/// Returns the lots that differ from `before`.
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

async fn accounts_with_expired_lots(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<AccountId>> {
    let found: Vec<Vec<u8>> = sqlx::query_scalar(ACCOUNTS_WITH_EXPIRED_LOTS)
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
        let kind = LotKind::parse(&kind).ok_or_else(|| corrupt(format!("unknown lot kind '{kind}'")))?;
        Ok((AccountId::from_u128(id_from(&account)?), kind))
    };
    found.map(known).transpose()
}

/// Writes the remaining, expired and withdrawn amounts of lots.
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

/// Writes the grant and the changed earlier lots. Returns `false` and writes nothing if the account
/// already has this grant. Returns `Conflict` if another account has it or the sum of the grants
/// overflows.
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
        return Err(conflict("the sum of all grants overflows"));
    }
    update(connection, &changed).await?;
    let transfer = Transfer {
        account: grant.account,
        subject: TransferSubject::Grant(grant.id),
        leg: grant.terms.kind.leg(),
        amount: grant.amount,
        at: grant.at,
    };
    transfer.apply(connection).await?;
    let lot = Lot::new(grant.id, grant.account, grant.amount, grant.terms, grant.at);
    insert(connection, &lot).await?;
    Ok(true)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOTS,
    WITH_REMAINING,
    INSERT,
    UPDATE,
    ACCOUNTS_WITH_EXPIRED_LOTS,
    OWNER,
    GRANTED_BEFORE,
    GRANTED,
];
