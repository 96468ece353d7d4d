//! Usage rows: one for each resolved hold. They never hold prompt text.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, PriceVersion, RequestId, Timestamp, Usage};

use crate::{PlanUse, Result};

/// What one call consumed and cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Id of the hold that it resolved.
    pub id: HoldId,
    /// Whose.
    pub account: AccountId,
    /// With which key.
    pub key: Option<KeyId>,
    /// For which request.
    pub request: RequestId,
    /// The path of the endpoint.
    pub endpoint: Arc<str>,
    /// The model as the caller named it.
    pub model: Arc<str>,
    /// Which upstream served, for operators only.
    pub provider: Arc<str>,
    /// The prices that applied.
    pub price_version: PriceVersion,
    /// What was held.
    pub held: Credits,
    /// What the call was charged, the part that a plan's allowance paid included.
    pub charge: Credits,
    /// How much of the charge a plan's allowance paid.
    pub included: Credits,
    /// The plan that applied when the hold was taken.
    pub plan: Option<PlanUse>,
    /// How much of the charge was given back.
    pub refunded: Credits,
    /// What the call cost beyond the hold.
    pub overrun: Credits,
    /// What was consumed.
    pub usage: Usage,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the gateway counted because no report came.
    pub estimated: bool,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When the first content arrived.
    pub first_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// How much of a call a plan's allowance paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Nothing.
    None,
    /// Some of it; credits paid the rest.
    Partly,
    /// All of it.
    Fully,
}

impl Coverage {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coverage::None => "none",
            Coverage::Partly => "partly",
            Coverage::Fully => "fully",
        }
    }
}

impl UsageRow {
    /// How much of the call a plan's allowance paid.
    pub fn coverage(&self) -> Coverage {
        match self.included {
            Credits::ZERO => Coverage::None,
            included if included == self.charge => Coverage::Fully,
            _ => Coverage::Partly,
        }
    }
}

/// What one model did for a call that several worked on: a line of its usage row, priced by its own model's prices. The row's
/// own prices are then free, its usage is the sum of that of its parts, and its charge and overrun are the sum of their costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePart {
    /// Its number within the row, from 0.
    pub number: u32,
    /// What it is, such as `script` or `scene 3`.
    pub name: Arc<str>,
    /// The model as it is named in public.
    pub model: Arc<str>,
    /// Which upstream served, for operators only.
    pub provider: Arc<str>,
    /// The prices that applied.
    pub price_version: PriceVersion,
    /// What was consumed.
    pub usage: Usage,
    /// What that costs by these prices.
    pub cost: Credits,
}

/// Which rows to read.
#[derive(Clone, Debug, Default)]
pub struct UsageFilter {
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
    /// Of this model.
    pub model: Option<String>,
    /// With this key.
    pub key: Option<KeyId>,
    /// At this endpoint.
    pub endpoint: Option<String>,
    /// Of this request.
    pub request: Option<RequestId>,
}

/// A page of rows, newest first.
#[derive(Clone, Copy, Debug)]
pub struct UsagePage {
    /// Rows older than this one.
    pub after: Option<HoldId>,
    /// At most this many.
    pub limit: u32,
}

/// What totals are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// The whole.
    All,
    /// Day in UTC, as `2026-11-20`.
    Day,
    /// Model as the caller named it.
    Model,
    /// Key id.
    Key,
    /// Path of the endpoint.
    Endpoint,
}

/// Sums over rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageTotal {
    /// What the sum is of: a day, model, key id or path; empty for the whole or where the row has none.
    pub group: String,
    /// Rows.
    pub requests: u64,
    /// What calls were charged, the part that allowances paid included.
    pub charge: Credits,
    /// What was consumed.
    pub usage: Usage,
}

/// Reads usage rows. They are written by [`crate::LedgerStore::settle`].
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Rows of an account, newest first (descending id). What was settled before the call is seen.
    async fn list(&self, account: AccountId, filter: UsageFilter, page: UsagePage) -> Result<Vec<UsageRow>>;

    /// The row of a request, whoever's; `None` when there is none. What was settled before the call is seen.
    async fn of_request(&self, request: RequestId) -> Result<Option<UsageRow>>;

    /// The parts of an account's row, in the order of their numbers; none of a call that one model did.
    async fn parts(&self, account: AccountId, row: HoldId) -> Result<Vec<UsagePart>>;

    /// Sums over an account's rows, in ascending order of group.
    async fn totals(
        &self,
        account: AccountId,
        filter: UsageFilter,
        group: UsageGroup,
    ) -> Result<Vec<UsageTotal>>;
}
