//! The ledger: double entry within each tenant's own book.
//!
//! A ledger account is (tenant, [`crate::LedgerAccount`]). A transfer moves a positive amount from one to another of
//! the same tenant, so every book sums to zero by itself and tenants never wait for one another.
//! A call's life is one hold and one resolution: `credits → hold`, then `hold → revenue` for what it cost and
//! `hold → credits` for the rest. Where the account has a plan, its allowance is drawn on first and returned last, and
//! every part goes back to where it came from.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, PriceVersion, RequestId, Timestamp, Usage};

use crate::{LotTerms, Result};

/// A hold to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHold {
    /// Id; it is also the id of the usage row. The first hold of a request has the request's own value.
    pub id: HoldId,
    /// Who pays.
    pub account: AccountId,
    /// With which key.
    pub key: Option<KeyId>,
    /// For which request.
    pub request: RequestId,
    /// Upper bound of the cost; zero for a model that costs nothing.
    pub amount: Credits,
    /// The prices in force, frozen for this call.
    pub price_version: PriceVersion,
    /// The model as the caller named it.
    pub model: Arc<str>,
    /// The path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: &'static str,
    /// Plans whose allowance does not pay for this model; mostly none.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// When the request was accepted. It says in which week of a plan the call falls.
    pub created_at: Timestamp,
    /// When the sweep may void it.
    pub expires_at: Timestamp,
}

/// What became of an attempt to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The amount is held; `available` is what is left to spend.
    Held {
        /// Credits left after the hold.
        available: Credits,
    },
    /// Neither the balance nor balance and allowance together cover the amount; nothing was written.
    Denied {
        /// The most that a hold of these terms could have taken: credits, and the allowance where it applies.
        available: Credits,
    },
}

/// How a hold is resolved: what the call cost and what it consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which hold.
    pub hold: HoldId,
    /// Whose.
    pub account: AccountId,
    /// What the caller pays; at most the held amount. Zero voids the hold.
    pub charge: Credits,
    /// What the call cost beyond the held amount; the operator bears it.
    pub overrun: Credits,
    /// What was consumed.
    pub usage: Usage,
    /// How the call ended.
    pub outcome: Outcome,
    /// Whether `usage` was counted by the gateway because no report came.
    pub estimated: bool,
    /// Which upstream served, for operators; empty when none did.
    pub provider: Arc<str>,
    /// When the first content arrived.
    pub first_at: Option<Timestamp>,
    /// When the call ended.
    pub ended_at: Timestamp,
}

impl Settlement {
    /// The resolution of a hold for which nothing was done, or nothing is known to have been done: it costs nothing.
    pub fn free(account: AccountId, hold: HoldId, outcome: Outcome, ended_at: Timestamp) -> Self {
        Self {
            hold,
            account,
            charge: Credits::ZERO,
            overrun: Credits::ZERO,
            usage: Usage::ZERO,
            outcome,
            estimated: false,
            provider: Arc::from(""),
            first_at: None,
            ended_at,
        }
    }
}

/// What became of a resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What the caller paid in the end. When the hold had been resolved before, this is the first result.
    pub charge: Credits,
    /// Whether this call resolved the hold, as opposed to finding it resolved.
    pub first: bool,
    /// Credits left to spend.
    pub available: Credits,
}

/// Credits put into an account from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Makes the grant happen once, however often it is sent.
    pub id: tollgate_types::id::TransferId,
    /// Who gets it.
    pub account: AccountId,
    /// How much; above zero.
    pub amount: Credits,
    /// When.
    pub at: Timestamp,
    /// On which terms. A refund is no grant.
    pub terms: LotTerms,
}

/// What an account can spend and what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Balance {
    /// Credits that can be spent.
    pub credits: Credits,
    /// Credits held by calls that run.
    pub held: Credits,
}

/// The most that a hold could take, by who would pay it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spendable {
    /// Credits.
    pub credits: Credits,
    /// What is left of the week of a plan that covers the call.
    pub allowance: Credits,
}

impl Spendable {
    /// Both.
    pub fn total(&self) -> Credits {
        self.credits.checked_add(self.allowance).unwrap_or(Credits::MAX)
    }
}

/// Keeps the books. Every method is atomic; a method that fails has written nothing.
#[async_trait]
pub trait LedgerStore: Send + Sync {
    /// Takes the hold if what is left of the open week of an active plan and the balance together cover it, in one step
    /// that no concurrent hold can slip into: the allowance first, credits for the rest. The first hold of a week closes
    /// the week before and opens its own. A denied hold writes nothing at all, neither of credits nor of the allowance. When this returns `Held` the hold survives the death of the process.
    /// `NotFound` when there is no such account; `Conflict` when the hold id was used.
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome>;

    /// Resolves the hold: moves `charge` to revenue, first out of what was held of the allowance, the rest back to where
    /// it came from (of the allowance to `breakage` when its week is closed), the overrun to expense, and writes the
    /// usage row. A hold resolves once; later resolutions change nothing and answer the first result.
    /// A charge above the held amount is cut to it. `NotFound` when no such hold was ever taken. When storage is away (`Unavailable`,
    /// `Timeout`), an engine that can be tries again by itself.
    async fn settle(&self, settlement: Settlement) -> Result<Resolution>;

    /// Puts credits into an account as a lot of its own, durably when it returns. What was spent before is assigned to the
    /// lots there were. The same id twice is one grant. `NotFound` when there is no such account; `Conflict` when the sum
    /// would not fit.
    async fn grant(&self, grant: Grant) -> Result<Balance>;

    /// The most that a hold of these terms could take, without taking it. `NotFound` when there is no such account.
    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable>;

    /// What an account can spend now. `NotFound` when there is no such account.
    async fn balance(&self, account: AccountId) -> Result<Balance>;

    /// Voids holds whose time is over, at most `limit`, as [`Outcome::Crashed`]; answers how many.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Shows the books to a visitor, account by account or of one account alone, as they stand at one instant.
    async fn audit(&self, account: Option<AccountId>, visitor: &mut dyn crate::AuditVisitor) -> Result<()>;
}
