//! The ledger: double entry, separate for each tenant.
//!
//! A ledger account is (tenant, [`crate::LedgerAccount`]). A transfer moves a positive amount
//! between two ledger accounts of the same tenant, so the balances of each tenant sum to zero and
//! tenants never wait for one another. A call has one hold and one resolution: `credits → hold`,
//! then `hold → revenue` for its cost and `hold → credits` for the rest. If the account has a plan,
//! its allowance is drawn first and returned last. Unused amounts return to their source.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, PriceVersion, RequestId, Timestamp, Usage};

use crate::{CLOCK_TOLERANCE, LotTerms, Result};

/// Maximum time that the hold of a call may stay open before the sweep voids it.
pub const MAX_HOLD_LIFETIME: Duration = Duration::from_hours(48);

/// Returns the latest valid expiry of a call's hold. A later one was written while a clock was
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
    /// API key of the call.
    pub key: Option<KeyId>,
    /// Request that the hold belongs to.
    pub request: RequestId,
    /// Upper bound of the cost; zero for a model that costs nothing.
    pub amount: Credits,
    /// Price version of the model when the call started.
    pub price_version: PriceVersion,
    /// The model as the caller named it.
    pub model: Arc<str>,
    /// The path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: &'static str,
    /// Names of the plans whose allowance does not cover this model; usually empty.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// Time when the request was accepted. It determines the week of a plan.
    pub created_at: Timestamp,
    /// Time when the sweep may void the hold.
    pub expires_at: Timestamp,
}

/// Outcome of an attempt to place a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The amount is held.
    Held {
        /// Credits left after the hold.
        available: Credits,
    },
    /// Neither the balance alone nor the balance with the allowance covers the amount. Nothing was
    /// written.
    Denied {
        /// Largest amount that a hold with these terms could take: credits, plus the allowance
        /// where it applies.
        available: Credits,
    },
}

/// How a hold is resolved: what the call cost and what it consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Hold to resolve.
    pub hold: HoldId,
    /// Account that pays.
    pub account: AccountId,
    /// Amount that the caller pays; at most the held amount. Zero voids the hold.
    pub charge: Credits,
    /// Cost beyond the held amount; the operator bears it.
    pub overrun: Credits,
    /// Usage of the call, such as its tokens.
    pub usage: Usage,
    /// How the call ended.
    pub outcome: Outcome,
    /// Whether the gateway counted `usage` because the provider reported none.
    pub estimated: bool,
    /// Target that served, as named in the settings: `provider/model`; empty if none did.
    pub target: Arc<str>,
    /// Time of the first content.
    pub first_at: Option<Timestamp>,
    /// Time when the call ended.
    pub ended_at: Timestamp,
}

impl Settlement {
    /// Returns the settlement of a hold without known work: the charge is zero.
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
    /// Final charge of the caller. If the hold was resolved before, the charge of the first
    /// resolution.
    pub charge: Credits,
    /// Whether this settlement resolved the hold, and not an earlier one.
    pub first: bool,
    /// Credits left to spend.
    pub available: Credits,
}

/// Credits added to an account from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Idempotency id: repeated grants with the same id count once.
    pub id: tollgate_types::id::TransferId,
    /// Account that receives the credits.
    pub account: AccountId,
    /// Amount, above zero.
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

/// Largest amount that a hold could take, by source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spendable {
    /// Credits that can be spent.
    pub credits: Credits,
    /// Unused allowance of the week, if the plan covers the call.
    pub allowance: Credits,
}

impl Spendable {
    /// Returns credits plus allowance.
    pub fn total(&self) -> Credits {
        self.credits.checked_add(self.allowance).unwrap_or(Credits::MAX)
    }
}

/// Stores the ledger. Every method is atomic; a method that fails has written nothing.
#[async_trait]
pub trait LedgerStore: Send + Sync {
    /// Places the hold if the balance and the unused allowance of the open week cover it. No
    /// concurrent hold can intervene. The allowance is drawn first, then credits. The first hold of
    /// a week closes the week before and opens its own. A denied hold writes nothing. When this
    /// returns `Held`, the hold survives the death of the process. `NotFound` when the account does
    /// not exist; `Conflict` when the hold id was used.
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome>;

    /// Resolves the hold: moves `charge` to revenue, first from the held allowance, returns the
    /// rest to its source (allowance goes to `breakage` when its week is closed), records the
    /// overrun as an expense, and writes the usage row. A hold resolves once; later settlements
    /// change nothing and return the first result. A charge above the held amount is reduced to it.
    /// `NotFound` when the hold never existed. When storage is away (`Unavailable`, `Timeout`), an
    /// engine may retry by itself.
    async fn settle(&self, settlement: Settlement) -> Result<Resolution>;

    /// Adds credits to an account as a separate lot, durably when it returns. Earlier spending is
    /// first assigned to the existing lots. The same id twice is one grant. `NotFound` when the
    /// account does not exist; `Conflict` when the sum would overflow.
    async fn grant(&self, grant: Grant) -> Result<Balance>;

    /// Returns the largest amount that a hold with these terms could take, without taking it.
    /// `NotFound` when the account does not exist.
    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable>;

    /// Returns the balance of an account. `NotFound` when the account does not exist.
    async fn balance(&self, account: AccountId) -> Result<Balance>;

    /// Voids expired holds as [`Outcome::Crashed`], at most `limit`; returns how many. For engines
    /// where holds outlive their process, a hold that expires later than [`latest_expiry`] was
    /// taken while a clock was ahead; it expires at that latest time.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Passes all ledger rows, of one account or of all, to a visitor, as of one instant.
    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn crate::AuditVisitor) -> Result<()>;
}
