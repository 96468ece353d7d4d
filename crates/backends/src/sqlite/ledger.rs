//! Implements [`LedgerStore`] on SQLite. A hold or a settlement is decided in memory, then written
//! to the journal, then returned.
//!
//! Lock order: the shard of the hold, the sums of the account, the journal. Locks are held while
//! one or two journal records are appended, never across an await.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::audit::{Leg, TransferRow, TransferSubject};
use tollgate_storage::subscription::window_entry;
use tollgate_storage::{
    AuditVisitor, Balance, Grant, HoldOutcome, LedgerStore, NewHold, PlanUse, Resolution, Result, Settlement,
    Spendable, StorageError, StorageErrorKind,
};
use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use super::account::conflict;
use super::balances::{AccountBalances, Share, Sums};
use super::holds::{HoldState, Shard};
use super::{Core, Sqlite, audit, chain};
use crate::ids::{HoldKey, lock};
use crate::journal::Entry;
use crate::journal::record::{Hold, PlanShare, Week, Window, crashed};
use crate::rows::{id_bytes, storage_error};

const CHARGE: &str = "SELECT charge FROM usage_row WHERE account_id = $1 AND id = $2";
const MOVE: &str = "UPDATE ledger_account SET balance = balance + $3 WHERE account_id = $1 AND kind = $2";
const TRANSFER: &str = "INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, \
    sequence, prev_hash, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

#[async_trait]
impl LedgerStore for Sqlite {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        if hold.amount < Credits::ZERO {
            return Err(conflict("the hold amount is negative"));
        }
        let account_balances = self.account_balances(hold.account)?;
        let not_covered_by = hold.not_covered_by.clone();
        let hold = Arc::new(Hold::from(hold));
        let mut searched = None;
        loop {
            match self.try_hold(&hold, &not_covered_by, &account_balances, searched)? {
                ControlFlow::Break(outcome) => return Ok(outcome),
                ControlFlow::Continue(times_forgotten) => {
                    if self.stored_charge(hold.account, hold.id).await?.is_some() {
                        return Err(used(hold.id));
                    }
                    searched = Some(times_forgotten);
                }
            }
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
        let (account, hold) = (settlement.account, settlement.hold);
        if let Some(resolution) = self.resolve(settlement)? {
            return Ok(resolution);
        }
        let charge = self.stored_charge(account, hold).await?;
        Ok(Resolution {
            charge: charge.ok_or_else(|| StorageError::not_found(hold))?,
            first: false,
            available: self.balance(account).await?.credits,
        })
    }

    async fn grant(&self, grant: Grant) -> Result<Balance> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.grant_lot(grant).await })
            .await
    }

    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable> {
        let account_balances = self.account_balances(account)?;
        let sums = lock(&account_balances.sums);
        let left = sums.share(at, &not_covered_by).map_or(0, |share| share.left);
        Ok(Spendable {
            credits: Credits::from_nanos(sums.credits),
            allowance: Credits::from_nanos(left),
        })
    }

    async fn balance(&self, account: AccountId) -> Result<Balance> {
        Ok(lock(&self.account_balances(account)?.sums).balance())
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let committed = self.committed.load(std::sync::atomic::Ordering::SeqCst);
        self.holds.forget(committed, self.clock.monotonic_micros());
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut voided = 0;
        for key in self.holds.expired(now, limit) {
            let resolution = self.resolve(crashed(key, now))?;
            voided += u64::from(resolution.is_some_and(|resolution| resolution.first));
        }
        Ok(voided)
    }

    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn AuditVisitor) -> Result<()> {
        self.flush(true).await?;
        audit::audit(self, account, visitor).await
    }
}

impl Core {
    pub(super) fn account_balances(&self, account: AccountId) -> Result<Arc<AccountBalances>> {
        self.balances
            .get(account)
            .ok_or_else(|| StorageError::not_found(account))
    }

    /// Creates the hold if the available credits suffice. If the database may contain a hold with
    /// this id, returns `Continue` with the shard's number of removed holds. The caller then
    /// searches the database and repeats the call with that number as `searched`.
    fn try_hold(
        &self,
        hold: &Arc<Hold>,
        not_covered_by: &[Arc<str>],
        account_balances: &Arc<AccountBalances>,
        searched: Option<u64>,
    ) -> Result<ControlFlow<HoldOutcome, u64>> {
        let mut shard = self.holds.shard(hold.id);
        if shard.get((hold.account, hold.id)).is_some() {
            return Err(used(hold.id));
        }
        if shard.may_be_forgotten(hold.id) && searched != Some(shard.times_forgotten) {
            return Ok(ControlFlow::Continue(shard.times_forgotten));
        }
        if self.is_failing() {
            let why = "the database cannot be written";
            return Err(StorageError::new(StorageErrorKind::Unavailable, why));
        }
        let mut sums = lock(&account_balances.sums);
        let share = match hold.amount {
            Credits::ZERO => None,
            _ => sums.share(hold.created_at, not_covered_by),
        };
        let left = share.map_or(0, |share| share.left);
        if sums.credits < hold.amount.nanos() - left.min(hold.amount.nanos()) {
            let available = Credits::from_nanos(sums.credits.saturating_add(left));
            return Ok(ControlFlow::Break(HoldOutcome::Denied { available }));
        }
        let hold = match share {
            Some(share) => self.draw(&mut sums, hold, share)?,
            None => hold.clone(),
        };
        let seq = self.append(|seq| Entry::Hold {
            seq,
            hold: hold.clone(),
        })?;
        sums.credits -= hold.credits();
        sums.allowance -= hold.allowance();
        sums.held += hold.amount.nanos();
        sums.drawn += hold.allowance();
        shard.open(hold, seq, account_balances.clone());
        let available = sums.balance().credits;
        Ok(ControlFlow::Break(HoldOutcome::Held { available }))
    }

    /// Returns the hold with its share of the plan's allowance. Opens the week if it is not open.
    fn draw(&self, sums: &mut Sums, hold: &Hold, share: Share) -> Result<Arc<Hold>> {
        let Some(plan) = sums.plan.as_mut() else {
            return Ok(Arc::new(hold.clone()));
        };
        if share.is_next {
            let window = Window {
                account: hold.account,
                subscription: plan.terms.id,
                closed: plan
                    .window
                    .map(|number| (number, Credits::from_nanos(sums.allowance))),
                opened: (share.week, plan.terms.allowance),
                at: hold.created_at,
            };
            self.append(|seq| Entry::Window { seq, window })?;
            plan.window = Some(share.week);
            sums.allowance = share.left;
        }
        let plan = PlanUse {
            name: plan.terms.subject.clone(),
            window: window_entry(plan.terms.id, share.week),
        };
        let allowance = Credits::from_nanos(share.left).min(hold.amount);
        Ok(Arc::new(Hold {
            plan: Some(Box::new(PlanShare { plan, allowance })),
            ..hold.clone()
        }))
    }

    /// Resolves the hold, or returns its earlier resolution. Returns `None` if only the database
    /// may contain the hold.
    fn resolve(&self, settlement: Settlement) -> Result<Option<Resolution>> {
        if settlement.charge < Credits::ZERO || settlement.overrun < Credits::ZERO {
            return Err(conflict("a settlement amount is negative"));
        }
        let key: HoldKey = (settlement.account, settlement.hold);
        let mut shard = self.holds.shard(settlement.hold);
        match shard.get(key) {
            Some(HoldState::Open {
                hold,
                seq,
                account_balances,
            }) => {
                let (hold, seq, account_balances) = (hold.clone(), *seq, account_balances.clone());
                self.resolve_open(&mut shard, hold, seq, &account_balances, settlement)
                    .map(Some)
            }
            Some(HoldState::Resolved(charge)) => {
                let charge = *charge;
                drop(shard);
                let available = lock(&self.account_balances(key.0)?.sums).balance().credits;
                Ok(Some(Resolution {
                    charge,
                    first: false,
                    available,
                }))
            }
            None if shard.may_be_forgotten(key.1) => Ok(None),
            None => Err(StorageError::not_found(key.1)),
        }
    }

    fn resolve_open(
        &self,
        shard: &mut Shard,
        hold: Arc<Hold>,
        hold_seq: u64,
        account_balances: &AccountBalances,
        mut settlement: Settlement,
    ) -> Result<Resolution> {
        settlement.charge = settlement.charge.min(Credits::from_nanos(hold.held()));
        let charge = settlement.charge;
        let key = (hold.account, hold.id);
        let mut sums = lock(&account_balances.sums);
        let revenue = revenue_after(&sums, &settlement)?;
        let week = match &hold.plan {
            Some(share) if !sums.is_open(&share.plan) => Week::Closed,
            _ => Week::Open,
        };
        let (split, amount, drawn) = (hold.split(charge, week), hold.held(), hold.allowance());
        let seq = self.append(|seq| Entry::Settle {
            seq,
            hold_seq,
            hold,
            settlement,
            week,
        })?;
        sums.credits += split.released;
        sums.allowance += split.returned;
        sums.held -= amount;
        sums.drawn -= drawn;
        sums.revenue = revenue;
        let now = self.clock.monotonic_micros();
        shard.resolve(key, charge, seq, now);
        shard.forget(self.committed.load(std::sync::atomic::Ordering::SeqCst), now);
        Ok(Resolution {
            charge,
            first: true,
            available: sums.balance().credits,
        })
    }

    /// Releases the credits of an open hold above `needed` and returns the amount that is still
    /// held. Returns `NotFound` if the hold is not open.
    pub(super) fn shrink(&self, key: HoldKey, needed: Credits, at: Timestamp) -> Result<Credits> {
        let mut shard = self.holds.shard(key.1);
        let Some(HoldState::Open {
            hold,
            seq,
            account_balances,
        }) = shard.get(key)
        else {
            return Err(StorageError::not_found(key.1));
        };
        let (hold, hold_seq, account_balances) = (hold.clone(), *seq, account_balances.clone());
        let Some(shrink) = hold.shrink(needed, at) else {
            return Ok(Credits::from_nanos(hold.held()));
        };
        let (amount, left) = (shrink.amount.nanos(), Arc::new(hold.after(&shrink)));
        let mut sums = lock(&account_balances.sums);
        self.append(|seq| Entry::Shrink {
            seq,
            hold_seq,
            hold,
            shrink,
        })?;
        sums.credits += amount;
        sums.held -= amount;
        let held = Credits::from_nanos(left.held());
        shard.open(left, hold_seq, account_balances.clone());
        Ok(held)
    }

    /// Appends a record to the journal and returns its sequence number. The caller must hold the
    /// lock of the account's sums.
    pub(super) fn append(&self, entry: impl FnOnce(u64) -> Entry) -> Result<u64> {
        let (seq, queued) = self.journal.append(entry)?;
        if queued == 1 || queued == self.commit_records {
            self.inbox.wake();
        }
        Ok(seq)
    }

    /// Returns the charge in a hold's usage row; `None` if the database has no such row.
    async fn stored_charge(&self, account: AccountId, hold: HoldId) -> Result<Option<Credits>> {
        self.read(move |connection| Box::pin(stored_charge(connection, account, hold)))
            .await
    }
}

fn used(id: HoldId) -> StorageError {
    conflict(format!("the id {id} already exists"))
}

/// Returns the account's total of charges and overruns after this settlement. Returns `Conflict` if
/// the total overflows.
fn revenue_after(sums: &Sums, settlement: &Settlement) -> Result<i64> {
    let (charge, overrun) = (settlement.charge.nanos(), settlement.overrun.nanos());
    let revenue = sums.revenue.checked_add(charge);
    revenue
        .and_then(|sum| sum.checked_add(overrun))
        .ok_or_else(|| conflict("the sum of all charges overflows"))
}

/// A transfer that does not belong to a call.
pub(super) struct Transfer {
    pub(super) account: AccountId,
    pub(super) subject: TransferSubject,
    pub(super) leg: Leg,
    pub(super) amount: Credits,
    pub(super) at: Timestamp,
}

impl Transfer {
    /// Converts the transfer to the type of the storage port, without a link.
    pub(super) fn row(&self) -> TransferRow {
        let (debit, credit) = self.leg.sides();
        TransferRow {
            subject: self.subject,
            leg: self.leg,
            debit,
            credit,
            amount: self.amount,
            created_at: self.at,
            price_version: None,
            link: None,
        }
    }

    /// Appends the transfer to the account's chain and inserts its row. A transfer of zero writes
    /// nothing.
    async fn insert(&self, connection: &mut SqliteConnection) -> Result<()> {
        if self.amount.is_zero() {
            return Ok(());
        }
        let row = chain::append(connection, self.account, self.row()).await?;
        let link = row.link;
        let row = sqlx::query(TRANSFER)
            .bind(id_bytes(self.account.as_u128()))
            .bind(id_bytes(row.subject.entry()))
            .bind(i64::from(row.leg.as_i16()))
            .bind(row.subject.as_str())
            .bind(row.debit.as_str())
            .bind(row.credit.as_str())
            .bind(row.amount.nanos())
            .bind(row.created_at.as_micros())
            .bind(link.map(|link| link.sequence))
            .bind(link.map(|link| link.previous.0.to_vec()))
            .bind(link.map(|link| link.hash.0.to_vec()));
        row.execute(connection).await.map(drop).map_err(storage_error)
    }

    /// Inserts the transfer and changes the balances of its debit and credit accounts.
    pub(super) async fn apply(&self, connection: &mut SqliteConnection) -> Result<()> {
        let (debit, credit) = self.leg.sides();
        for (kind, by) in [(debit, -self.amount.nanos()), (credit, self.amount.nanos())] {
            let moved = sqlx::query(MOVE)
                .bind(id_bytes(self.account.as_u128()))
                .bind(kind.as_str())
                .bind(by);
            moved.execute(&mut *connection).await.map_err(storage_error)?;
        }
        self.insert(connection).await
    }
}

async fn stored_charge(
    connection: &mut SqliteConnection,
    account: AccountId,
    hold: HoldId,
) -> Result<Option<Credits>> {
    let charge: Option<i64> = sqlx::query_scalar(CHARGE)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    Ok(charge.map(Credits::from_nanos))
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CHARGE, MOVE, TRANSFER];
