//! The double-entry ledger, separate for each tenant.
//!
//! A ledger account is identified by a tenant and a [`crate::LedgerAccount`]. A transfer moves a
//! positive amount between two ledger accounts of the same tenant, so that the balances of each
//! tenant sum to zero and tenants never wait for one another. A call has one hold and one
//! resolution: `credits → hold`, then `hold → revenue` for its cost and `hold → credits` for the
//! rest. If the account has a plan, its allowance is used first and returned last. Unused amounts
//! return to their source.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Principal, RequestId, Timestamp, Usage};

use crate::{CLOCK_TOLERANCE, LotTerms, Result};

/// Maximum time between a call's hold and its expiry. The sweep voids holds that have expired.
pub const MAX_HOLD_LIFETIME: Duration = Duration::from_hours(48);

/// Returns the latest valid expiry of a call's hold. A later expiry was written while a clock was
/// ahead.
pub fn latest_expiry(now: Timestamp) -> Timestamp {
    now.plus(MAX_HOLD_LIFETIME + CLOCK_TOLERANCE)
}

/// A hold to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHold {
    /// Id of the hold and of its usage row. The first hold of a request has the same 128 bits as
    /// the request.
    pub id: HoldId,
    /// Account that pays.
    pub account: AccountId,
    /// The API key or member that makes the call; `None` for a hold that no request takes.
    pub principal: Option<Principal>,
    /// Request that the hold belongs to.
    pub request: RequestId,
    /// Upper bound of the cost; zero for a free model.
    pub amount: Credits,
    /// Price version of the model when the call started.
    pub price_version: PriceVersion,
    /// Model name as sent in the request.
    pub model: Arc<str>,
    /// Path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: &'static str,
    /// Names of the plans whose allowance does not cover this model; usually empty.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// Time when the request was accepted, which determines the week of a plan.
    pub created_at: Timestamp,
    /// Time when the sweep may void the hold.
    pub expires_at: Timestamp,
}

/// Outcome of an attempt to place a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The amount is held.
    Held {
        /// Credits that can still be spent after the hold.
        available: Credits,
    },
    /// The credits and the applicable allowance do not cover the amount. No data was written.
    Denied {
        /// Maximum amount of a hold with these terms: credits, plus the allowance if it applies.
        available: Credits,
    },
}

/// Resolution of a hold: the cost and the usage of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Hold to resolve.
    pub hold: HoldId,
    /// Account that pays.
    pub account: AccountId,
    /// Amount that the caller pays, at most the held amount. Zero voids the hold.
    pub charge: Credits,
    /// Cost beyond the held amount, borne by the operator.
    pub overrun: Credits,
    /// Usage of the call, such as its tokens.
    pub usage: Usage,
    /// Outcome of the call, such as [`Outcome::Ok`].
    pub outcome: Outcome,
    /// Whether the gateway counted `usage` because the provider reported none.
    pub estimated: bool,
    /// Target that served the call, as named in the settings: `provider/model`; empty if none did.
    pub target: Arc<str>,
    /// Time of the first content of the response.
    pub first_at: Option<Timestamp>,
    /// Time when the call ended.
    pub ended_at: Timestamp,
}

impl Settlement {
    /// Returns a settlement with a charge of zero, for a hold whose usage is unknown.
    pub fn free(account: AccountId, hold: HoldId, outcome: Outcome, ended_at: Timestamp) -> Self {
        Self {
            hold,
            account,
            charge: Credits::ZERO,
            overrun: Credits::ZERO,
            usage: Usage::ZERO,
            outcome,
            estimated: false,
            target: Arc::from(""),
            first_at: None,
            ended_at,
        }
    }
}

/// Outcome of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Final charge of the caller; if the hold had been resolved before, the charge of the first
    /// resolution.
    pub charge: Credits,
    /// Whether this settlement resolved the hold; `false` if an earlier one did.
    pub first: bool,
    /// Credits that can still be spent.
    pub available: Credits,
}

/// Credits added to an account: a purchase or a promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Idempotency id: several grants with the same id count once.
    pub id: tollgate_types::id::TransferId,
    /// Account that receives the credits.
    pub account: AccountId,
    /// Amount of credits, above zero.
    pub amount: Credits,
    /// Time of the grant.
    pub at: Timestamp,
    /// Kind, priority and expiry of the credits. `LotKind::Refund` is not allowed.
    pub terms: LotTerms,
}

/// Spendable and held credits of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Balance {
    /// Credits that can be spent.
    pub credits: Credits,
    /// Credits held by running calls.
    pub held: Credits,
}

/// Maximum amount of a hold, by source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spendable {
    /// Credits that can be spent.
    pub credits: Credits,
    /// Unused allowance of the week, if the plan covers the call.
    pub allowance: Credits,
}

impl Spendable {
    /// Returns the sum of credits and allowance.
    pub fn total(&self) -> Credits {
        self.credits.checked_add(self.allowance).unwrap_or(Credits::MAX)
    }
}

/// Stores the ledger. Every method is atomic: a method that fails has written nothing.
#[async_trait]
pub trait LedgerStore: Send + Sync {
    /// Places the hold if the balance and the unused allowance of the open week cover it,
    /// atomically with respect to concurrent holds. The allowance is used first, then credits. The
    /// first hold of a week closes the week before and opens the new one. A denied hold writes
    /// nothing. When the call returns `Held`, the hold survives the death of the process.
    /// `NotFound` if the account does not exist, `Conflict` if the hold id was used.
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome>;

    /// Resolves the hold: moves `charge` to revenue, first from the held allowance, returns the
    /// rest to its source (allowance of a closed week goes to `breakage`), records the overrun as
    /// an expense, and writes the usage row. A hold resolves once; later settlements change nothing
    /// and return the first result. A charge above the held amount is reduced to it. `NotFound` if
    /// the hold never existed. On `Unavailable` and `Timeout`, an engine may retry the settlement
    /// itself.
    async fn settle(&self, settlement: Settlement) -> Result<Resolution>;

    /// Adds credits to an account as a separate lot; the grant is durable when the call returns.
    /// Earlier spending is first assigned to the existing lots. Several grants with the same id
    /// count once. `NotFound` if the account does not exist, `Conflict` if the sum would overflow.
    async fn grant(&self, grant: Grant) -> Result<Balance>;

    /// Returns the maximum amount of a hold with these terms, without placing a hold. `NotFound` if
    /// the account does not exist.
    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable>;

    /// Returns the balance of an account. `NotFound` if the account does not exist.
    async fn balance(&self, account: AccountId) -> Result<Balance>;

    /// Voids up to `limit` expired holds as [`Outcome::Crashed`] and returns their number. In
    /// engines whose holds survive the process, a hold with a later expiry than [`latest_expiry`]
    /// was placed while a clock was ahead, and expires at that latest time.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Passes all ledger rows of one account or of all accounts to a visitor, as of one instant.
    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn crate::AuditVisitor) -> Result<()>;
}
