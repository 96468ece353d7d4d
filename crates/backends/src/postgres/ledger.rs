//! Implements [`LedgerStore`] on PostgreSQL. Each step of a call is one statement and thus one
//! transaction.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use tollgate_storage::subscription::Draw;
use tollgate_storage::{
    AuditVisitor, Balance, Grant, HoldOutcome, LedgerStore, NewHold, Resolution, Result, Settlement,
    Spendable, StorageError, Subscription, latest_expiry,
};
use tollgate_types::{AccountId, Credits, Timestamp, Unit, Usage};

use super::pool::{Pool, Statement};
use super::unsettled::is_transient;
use super::{Node, RECALL_TIMEOUT, RETRY_PAUSES, RecalledLeases};
use super::{audit, error, lot, rows, subscription};
use crate::rows::{SubscriptionColumns, key_column, member_column, quantity_column, version_column};

/// Sets the expiry of holds that expire later than $1 to $1. Holds of jobs, which expire at $2,
/// stay unchanged.
const SHORTEN: &str = "UPDATE hold SET expires_at = $1 WHERE (account_id, id) IN (
        SELECT account_id, id FROM hold WHERE expires_at > $1 AND expires_at < $2 LIMIT $3
        FOR UPDATE SKIP LOCKED)";

pub(super) struct Ledger(pub(super) Arc<Node>);

#[async_trait]
impl LedgerStore for Ledger {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        if let Some(leases) = &self.0.leases
            && let Some(available) = leases.hold(&hold)?
        {
            return Ok(HoldOutcome::Held { available });
        }
        self.0.hold_with_recall(&hold, || self.hold_exactly(&hold)).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
        let settlement = match &self.0.leases {
            None => settlement,
            Some(leases) => match leases.settle(settlement)? {
                Ok(resolution) => return Ok(resolution),
                Err(settlement) => settlement,
            },
        };
        let settled = settle_exactly(&self.0.pool, &settlement).await;
        if settled.as_ref().is_err_and(|error| is_transient(error.kind)) {
            self.0.unsettled.retry_later(&self.0, settlement);
        }
        settled
    }

    async fn grant(&self, grant: Grant) -> Result<Balance> {
        let account = grant.account;
        lot::grant(&self.0.pool, grant).await?;
        self.balance(account).await
    }

    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable> {
        let credits = self.balance(account).await?.credits;
        let statement = sqlx::query(subscription::ACTIVE_PLAN).bind(account.as_u128().to_be_bytes());
        let Some(row) = self.0.pool.optional(statement).await? else {
            return Ok(Spendable {
                credits,
                allowance: Credits::ZERO,
            });
        };
        let left = rows::credits(&row, "balance")?;
        let plan: Subscription = rows::whole::<SubscriptionColumns, _>(&row)?;
        let allowance = match plan.draw(at) {
            _ if not_covered_by.contains(&plan.terms.subject) => Credits::ZERO,
            Draw::Open(_) => left,
            Draw::Next(_) => plan.terms.allowance,
            Draw::Nothing => Credits::ZERO,
        };
        Ok(Spendable { credits, allowance })
    }

    async fn balance(&self, account: AccountId) -> Result<Balance> {
        // Unheld credits of leases can be spent.
        let statement = sqlx::query(
            "SELECT sum(balance) FILTER (WHERE kind IN ('credits', 'lease'))::BIGINT - in_flight AS credits,
                sum(balance) FILTER (WHERE kind = 'hold')::BIGINT + in_flight AS held
            FROM ledger_account, (SELECT COALESCE(sum(LEAST(in_flight, balance)), 0)::BIGINT AS in_flight FROM lease
                WHERE account_id = $1) AS leases
            WHERE account_id = $1 GROUP BY in_flight",
        );
        let statement = statement.bind(account.as_u128().to_be_bytes());
        let Some(row) = self.0.settled(Some(account)).await.optional(statement).await? else {
            return Err(StorageError::not_found(account));
        };
        Ok(Balance {
            credits: rows::credits(&row, "credits")?,
            held: rows::credits(&row, "held")?,
        })
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SHORTEN)
            .bind(latest_expiry(now).as_micros())
            .bind(i64::MAX)
            .bind(i64::from(limit));
        self.0.pool.execute(statement).await?;
        let statement = sqlx::query("SELECT voided FROM sweep_holds($1, $2)")
            .bind(now.as_micros())
            .bind(i64::from(limit));
        let voided: i64 = rows::get(&self.0.pool.one(statement).await?, "voided")?;
        let statement = sqlx::query("SELECT reclaimed FROM reclaim_leases($1)").bind(i64::from(limit));
        let reclaimed: i64 = rows::get(&self.0.pool.one(statement).await?, "reclaimed")?;
        if reclaimed > 0 {
            tracing::warn!(reclaimed, "closed leases of nodes that stopped reporting");
        }
        let voided = u64::try_from(voided).map_err(error::corrupt)?;
        let Some(leases) = &self.0.leases else {
            return Ok(voided);
        };
        leases.close_unknown().await?;
        Ok(voided + leases.sweep(now))
    }

    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn AuditVisitor) -> Result<()> {
        audit::show(self.0.settled(account).await, account, visitor).await
    }
}

impl Ledger {
    /// Takes a hold from the database, without a lease.
    async fn hold_exactly(&self, hold: &NewHold) -> Result<HoldOutcome> {
        held(&self.0.pool.one(hold_statement(hold)).await?)
    }
}

impl Node {
    /// Takes a hold from the database. If the balance is too low, recalls leases and tries again;
    /// denies the hold immediately if even all leases would not cover it.
    pub(super) async fn hold_with_recall<F>(
        &self,
        hold: &NewHold,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<HoldOutcome>
    where
        F: Future<Output = Result<HoldOutcome>> + Send,
    {
        let mut available = match attempt().await? {
            HoldOutcome::Denied { available } => available,
            held => return Ok(held),
        };
        let (mut pause, mut waited) = (RETRY_PAUSES[0], Duration::ZERO);
        loop {
            let RecalledLeases { leased, unused } = self.recall(hold.account).await?;
            let and = |more| available.checked_add(more).unwrap_or(Credits::MAX);
            if leased.is_zero() || and(leased) < hold.amount || waited >= RECALL_TIMEOUT {
                let available = and(unused);
                return Ok(HoldOutcome::Denied { available });
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(RETRY_PAUSES[1]);
            match attempt().await? {
                HoldOutcome::Denied { available: now } => available = now,
                held => return Ok(held),
            }
        }
    }
}

/// Returns the statement that takes a hold; [`held`] reads its result.
pub(super) fn hold_statement(hold: &NewHold) -> Statement {
    sqlx::query("SELECT held, available FROM take_hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)")
        .bind(hold.account.as_u128().to_be_bytes())
        .bind(hold.id.as_u128().to_be_bytes())
        .bind(key_column(hold.principal))
        .bind(hold.request.as_u128().to_be_bytes())
        .bind(hold.amount.nanos())
        .bind(version_column(hold.price_version))
        .bind(hold.model.to_string())
        .bind(hold.endpoint)
        .bind(hold.created_at.as_micros())
        .bind(hold.expires_at.as_micros())
        .bind(
            hold.not_covered_by
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        )
        .bind(member_column(hold.principal))
}

/// Reads the outcome of a hold.
pub(super) fn held(row: &PgRow) -> Result<HoldOutcome> {
    let available = rows::credits(row, "available")?;
    match rows::get(row, "held")? {
        true => Ok(HoldOutcome::Held { available }),
        false => Ok(HoldOutcome::Denied { available }),
    }
}

/// Resolves a hold in the database.
pub(super) async fn settle_exactly(pool: &Pool, settlement: &Settlement) -> Result<Resolution> {
    resolution(&pool.one(settle_statement(settlement)).await?)
}

/// Returns the statement that resolves a hold; [`resolution`] reads its result.
pub(super) fn settle_statement(settlement: &Settlement) -> Statement {
    let has_noted_units = has_noted_units(&settlement.usage);
    let mut statement = sqlx::query(if has_noted_units { SETTLE_ALL_UNITS } else { SETTLE });
    statement = statement
        .bind(settlement.account.as_u128().to_be_bytes())
        .bind(settlement.hold.as_u128().to_be_bytes())
        .bind(settlement.charge.nanos())
        .bind(settlement.overrun.nanos());
    for unit in inserted_units() {
        statement = statement.bind(quantity_column(settlement.usage.get(unit)));
    }
    statement = statement
        .bind(settlement.outcome.as_str())
        .bind(i64::from(settlement.estimated))
        .bind(settlement.target.to_string())
        .bind(settlement.first_at.map(Timestamp::as_micros))
        .bind(settlement.ended_at.as_micros());
    if has_noted_units {
        for unit in noted_units() {
            statement = statement.bind(quantity_column(settlement.usage.get(unit)));
        }
    }
    statement
}

/// Number of classes that the database functions `settle_hold` and `lease_round` insert, the first
/// ones of [`Unit::ALL`]. `note_made` adds the later ones.
const INSERTED_CLASSES: usize = 8;

/// Returns the units that are inserted with a usage row, in the order of the parameters.
pub(super) fn inserted_units() -> impl Iterator<Item = Unit> {
    Unit::ALL.into_iter().take(INSERTED_CLASSES)
}

/// Returns the units that `note_made` adds to a usage row, in the order of the parameters.
pub(super) fn noted_units() -> impl Iterator<Item = Unit> {
    Unit::ALL.into_iter().skip(INSERTED_CLASSES)
}

/// Whether a usage has units that `note_made` adds.
pub(super) fn has_noted_units(usage: &Usage) -> bool {
    noted_units().any(|unit| usage.get(unit) > 0)
}

const SETTLE: &str = "SELECT charged, resolved, available
    FROM settle_hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
/// Like [`SETTLE`], but also records the units of [`noted_units`], once the usage row exists.
const SETTLE_ALL_UNITS: &str = "WITH settled AS MATERIALIZED (SELECT charged, resolved, available
    FROM settle_hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)),
    noted AS MATERIALIZED (SELECT note_made($1, ARRAY[$2]::BYTEA[], ARRAY[$18]::BIGINT[], ARRAY[$19]::BIGINT[],
        ARRAY[$20]::BIGINT[], ARRAY[$21]::BIGINT[], ARRAY[$22]::BIGINT[], ARRAY[$23]::BIGINT[],
        ARRAY[$24]::BIGINT[]) FROM settled WHERE resolved)
    SELECT charged, resolved, available FROM settled, (SELECT count(*) FROM noted) AS once";

/// Reads the outcome of a settlement.
pub(super) fn resolution(row: &PgRow) -> Result<Resolution> {
    Ok(Resolution {
        charge: rows::credits(row, "charged")?,
        first: rows::get(row, "resolved")?,
        available: rows::credits(row, "available")?,
    })
}
