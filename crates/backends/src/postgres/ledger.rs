//! The books. A call's steps are one statement each, which is one transaction: it is carried out as a whole or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::subscription::Draw;
use tollgate_storage::{
    AuditVisitor, Balance, Grant, HoldOutcome, LedgerAccount, LedgerStore, NewHold, Resolution, Result,
    Settlement, Spendable, StorageError, Subscription,
};
use tollgate_types::{AccountId, Credits, Timestamp, Unit};

use super::pool::Pool;
use super::{audit, error, lot, rows, subscription};
use crate::rows::{SubscriptionColumns, quantity_column, version_column};

pub(super) struct Ledger(pub(super) Arc<Pool>);

#[async_trait]
impl LedgerStore for Ledger {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        let statement = sqlx::query(
            "SELECT held, available FROM take_hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        );
        let statement = statement
            .bind(hold.account.as_u128().to_be_bytes())
            .bind(hold.id.as_u128().to_be_bytes())
            .bind(hold.key.map(|key| key.as_u128().to_be_bytes()))
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
            );
        let row = self.0.one(statement).await?;
        let available = rows::credits(&row, "available")?;
        match rows::get(&row, "held")? {
            true => Ok(HoldOutcome::Held { available }),
            false => Ok(HoldOutcome::Denied { available }),
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
        let mut statement = sqlx::query(
            "SELECT charged, resolved, available
            FROM settle_hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        );
        statement = statement
            .bind(settlement.account.as_u128().to_be_bytes())
            .bind(settlement.hold.as_u128().to_be_bytes())
            .bind(settlement.charge.nanos())
            .bind(settlement.overrun.nanos());
        for unit in Unit::ALL {
            statement = statement.bind(quantity_column(settlement.usage.get(unit)));
        }
        statement = statement
            .bind(settlement.outcome.as_str())
            .bind(i64::from(settlement.estimated))
            .bind(settlement.provider.to_string())
            .bind(settlement.first_at.map(Timestamp::as_micros))
            .bind(settlement.ended_at.as_micros());
        let row = self.0.one(statement).await?;
        Ok(Resolution {
            charge: rows::credits(&row, "charged")?,
            first: rows::get(&row, "resolved")?,
            available: rows::credits(&row, "available")?,
        })
    }

    async fn grant(&self, grant: Grant) -> Result<Balance> {
        lot::grant(&self.0, grant).await
    }

    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable> {
        let credits = self.balance(account).await?.credits;
        let statement = sqlx::query(subscription::ACTIVE_PLAN).bind(account.as_u128().to_be_bytes());
        let Some(row) = self.0.optional(statement).await? else {
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
        let statement = sqlx::query("SELECT kind, balance FROM ledger_account WHERE account_id = $1")
            .bind(account.as_u128().to_be_bytes());
        let found = self.0.all(statement).await?;
        if found.is_empty() {
            return Err(StorageError::not_found(account));
        }
        let mut balance = Balance::default();
        for row in found {
            let amount = rows::credits(&row, "balance")?;
            match rows::name(&row, "kind", LedgerAccount::parse)? {
                LedgerAccount::Credits => balance.credits = amount,
                LedgerAccount::Hold => balance.held = amount,
                _ => (),
            }
        }
        Ok(balance)
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query("SELECT voided FROM sweep_holds($1, $2)")
            .bind(now.as_micros())
            .bind(i64::from(limit));
        let voided: i64 = rows::get(&self.0.one(statement).await?, "voided")?;
        u64::try_from(voided).map_err(error::corrupt)
    }

    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn AuditVisitor) -> Result<()> {
        audit::show(&self.0, account, visitor).await
    }
}
