//! Usage rows: one row for each resolved hold. They never contain prompt text.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::id::min_id;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, MemberId, PriceVersion, Principal, RequestId, Timestamp, Usage,
};

use crate::{PlanUse, Result};

/// Usage and cost of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Id of the resolved hold.
    pub id: HoldId,
    /// Account that pays for the call.
    pub account: AccountId,
    /// The API key or member that made the call; `None` for a hold that no request took.
    pub principal: Option<Principal>,
    /// Id of the request that made the call.
    pub request: RequestId,
    /// Path of the endpoint.
    pub endpoint: Arc<str>,
    /// Canonical id of the model: the model of the price version, or `requested_model` if that
    /// version is not recorded.
    pub model: Arc<str>,
    /// Model name as sent in the request: an id, an alias or a bare name.
    pub requested_model: Arc<str>,
    /// Target that served the call, as named in the settings: `provider/model`. Empty if none did.
    /// Rows written by earlier versions of the gateway contain only the provider.
    pub target: Arc<str>,
    /// Price version that applied to the call.
    pub price_version: PriceVersion,
    /// Held amount, an upper bound of the charge.
    pub held: Credits,
    /// Charge of the call, including the part paid by a plan's allowance.
    pub charge: Credits,
    /// Part of the charge paid by a plan's allowance.
    pub included: Credits,
    /// Plan that applied when the hold was taken.
    pub plan: Option<PlanUse>,
    /// Part of the charge that was refunded.
    pub refunded: Credits,
    /// Cost beyond the held amount, borne by the operator.
    pub overrun: Credits,
    /// Measured consumption, such as tokens.
    pub usage: Usage,
    /// Outcome of the call, such as [`Outcome::Ok`].
    pub outcome: Outcome,
    /// Whether the gateway counted `usage` because the provider reported none.
    pub estimated: bool,
    /// Time when the request was accepted.
    pub created_at: Timestamp,
    /// Time of the first content of the response.
    pub first_at: Option<Timestamp>,
    /// Time when the call ended.
    pub ended_at: Timestamp,
}

/// Share of a call that a plan's allowance paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The allowance paid nothing.
    None,
    /// The allowance paid a part; credits paid the rest.
    Partly,
    /// The allowance paid the whole charge.
    Fully,
}

impl Coverage {
    /// Returns the name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coverage::None => "none",
            Coverage::Partly => "partly",
            Coverage::Fully => "fully",
        }
    }
}

/// Splits a target into provider and upstream model; the model is `None` if the target contains
/// only a provider.
pub fn split_target(target: &str) -> (&str, Option<&str>) {
    match target.split_once('/') {
        Some((provider, model)) => (provider, Some(model)),
        None => (target, None),
    }
}

impl UsagePart {
    /// Returns the provider that served this part of the call; empty if none did.
    pub fn provider(&self) -> &str {
        split_target(&self.target).0
    }

    /// Returns the provider's name for the model; `None` if it is not recorded.
    pub fn upstream_model(&self) -> Option<&str> {
        split_target(&self.target).1
    }
}

impl UsageRow {
    /// Returns the provider that served the call, for operators only; empty if none did.
    pub fn provider(&self) -> &str {
        split_target(&self.target).0
    }

    /// Returns the provider's name for the model; `None` if it is not recorded.
    pub fn upstream_model(&self) -> Option<&str> {
        split_target(&self.target).1
    }

    /// Returns the share of the call that a plan's allowance paid.
    pub fn coverage(&self) -> Coverage {
        match self.included {
            Credits::ZERO => Coverage::None,
            included if included == self.charge => Coverage::Fully,
            _ => Coverage::Partly,
        }
    }
}

/// The usage of one model in a call of several models: a part of the usage row, priced by that
/// model's prices. The row's own prices are then free, its usage is the sum over the parts, and its
/// charge plus overrun is the sum of their costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePart {
    /// Number of the part within the row, from 0.
    pub number: u32,
    /// Name of the part, such as `script` or `scene 3`.
    pub name: Arc<str>,
    /// Model name: as requested when the part is written, its canonical id when the part is read.
    pub model: Arc<str>,
    /// Target that served this part, in the form of [`UsageRow::target`].
    pub target: Arc<str>,
    /// Price version that applied to the part.
    pub price_version: PriceVersion,
    /// Measured consumption, such as tokens.
    pub usage: Usage,
    /// Cost of the usage at the prices of `price_version`.
    pub cost: Credits,
}

/// Filter for usage rows; `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// Only rows created at or after this time.
    pub from: Option<Timestamp>,
    /// Only rows created before this time.
    pub to: Option<Timestamp>,
    /// Only rows of the model with this canonical id.
    pub model: Option<String>,
    /// Only rows of requests with this model name.
    pub requested_model: Option<String>,
    /// Only rows of the model with this name at its provider.
    pub upstream_model: Option<String>,
    /// Only rows of this API key.
    pub key: Option<KeyId>,
    /// Only rows of calls that this member made with a session.
    pub member: Option<MemberId>,
    /// Only rows with these outcomes.
    pub outcome: Option<OutcomeFilter>,
    /// Only rows of this endpoint path.
    pub endpoint: Option<String>,
    /// Only rows of the request with this id.
    pub request: Option<RequestId>,
}

/// Outcomes that a [`UsageFilter`] matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeFilter {
    /// Only calls with this outcome.
    Only(Outcome),
    /// Every outcome except [`Outcome::Ok`].
    ExceptOk,
}

/// A page of usage rows, newest first.
#[derive(Clone, Copy, Debug)]
pub struct UsagePage {
    /// Only rows older than this one.
    pub after: Option<HoldId>,
    /// Maximum number of rows.
    pub limit: u32,
}

/// A page of calls, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPage {
    /// Rows that match the filter.
    pub rows: Vec<UsageRow>,
    /// Value of [`UsagePage::after`] for the next page, which can be the id of a row that does not
    /// match; `None` if there are no further rows.
    pub next: Option<HoldId>,
}

/// Maximum difference between the time in the id of a hold and its [`UsageRow::created_at`],
/// without the offset of a test clock. Ids are generated when a request is accepted.
pub const MAX_ID_SKEW: Duration = Duration::from_hours(1);

/// Returns a range that contains the ids of all holds created at or after `from` and before `to`.
/// `test_clock` is the offset of the account's test clock: earlier offsets were smaller.
pub fn hold_ids(
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    test_clock: Option<Duration>,
) -> RangeInclusive<HoldId> {
    let skew = MAX_ID_SKEW + test_clock.unwrap_or_default();
    let start = from.map_or(0, |from| min_id(from.minus(skew)));
    let end = to.map_or(u128::MAX, |to| min_id(to.plus(MAX_ID_SKEW)));
    HoldId::from_u128(start)..=HoldId::from_u128(end)
}

/// Length of a span of a usage series, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesStep {
    /// Full hours in UTC.
    Hour,
    /// Days in UTC, from midnight.
    Day,
}

impl SeriesStep {
    /// Returns the length in microseconds.
    pub const fn micros(self) -> i64 {
        match self {
            SeriesStep::Hour => 3_600_000_000,
            SeriesStep::Day => 24 * 3_600_000_000,
        }
    }
}

/// Grouping of a usage series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesGroup {
    /// Canonical id of the model.
    Model,
    /// Id of the API key.
    Key,
    /// Id of the member who made the call with a session.
    Member,
    /// Path of the endpoint.
    Endpoint,
}

/// Query of a usage series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesQuery {
    /// Only rows created at or after this time.
    pub from: Timestamp,
    /// Only rows created before this time.
    pub to: Timestamp,
    /// Length of the spans.
    pub step: SeriesStep,
    /// Grouping within a span; `None` for one group.
    pub by: Option<SeriesGroup>,
}

/// Totals of a group in a span of a usage series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesPoint {
    /// Start of the span, which can be before [`SeriesQuery::from`].
    pub start: Timestamp,
    /// Key of the group, in the form of [`UsageTotal::group`].
    pub group: String,
    /// Number of usage rows.
    pub requests: u64,
    /// Sum of the charges, including the parts paid by allowances.
    pub charge: Credits,
    /// Sum of the measured consumption.
    pub usage: Usage,
}

/// Grouping of usage totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// One total over all rows.
    All,
    /// UTC day of `created_at`, in the form `2026-11-20`.
    Day,
    /// Canonical id of the model.
    Model,
    /// Model name in the request.
    RequestedModel,
    /// Name of the model at its provider.
    UpstreamModel,
    /// Id of the API key.
    Key,
    /// Id of the member who made the call with a session.
    Member,
    /// Path of the endpoint.
    Endpoint,
}

/// Totals of a group of usage rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageTotal {
    /// Key of the group: a day, model, key id, member id or path; empty for [`UsageGroup::All`] and
    /// for rows without a value.
    pub group: String,
    /// Number of usage rows.
    pub requests: u64,
    /// Sum of the charges, including the parts paid by allowances.
    pub charge: Credits,
    /// Sum of the measured consumption.
    pub usage: Usage,
}

/// Reads usage rows. [`crate::LedgerStore::settle`] writes them.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Lists rows of an account, newest first (by descending id), including every call settled
    /// before.
    async fn list(&self, account: AccountId, filter: UsageFilter, page: UsagePage) -> Result<Vec<UsageRow>>;

    /// Lists calls of an account, newest first (by descending id), including every call settled
    /// before. Reads at most `scan_limit` rows, so that the time of a page is bounded for every
    /// filter. Both limits must be positive. A filter by time finds the rows whose ids are within
    /// [`MAX_ID_SKEW`].
    async fn calls(
        &self,
        account: AccountId,
        filter: UsageFilter,
        page: UsagePage,
        scan_limit: u32,
    ) -> Result<CallPage>;

    /// Returns the row of a request of any account, including every call settled before; `None` if
    /// it does not exist.
    async fn of_request(&self, request: RequestId) -> Result<Option<UsageRow>>;

    /// Lists the parts of an account's row, sorted by number; empty for a call of one model.
    async fn parts(&self, account: AccountId, row: HoldId) -> Result<Vec<UsagePart>>;

    /// Returns the totals of an account's rows, sorted by group.
    async fn totals(
        &self,
        account: AccountId,
        filter: UsageFilter,
        group: UsageGroup,
    ) -> Result<Vec<UsageTotal>>;

    /// Returns totals of an account's rows by span and group, sorted by both, including every call
    /// settled before. Spans and groups without rows are absent. Counts the rows whose ids are
    /// within [`MAX_ID_SKEW`].
    async fn series(&self, account: AccountId, query: SeriesQuery) -> Result<Vec<SeriesPoint>>;

    /// Returns the last use of each of the account's keys, including every call settled before: the
    /// latest [`UsageRow::created_at`] of its rows. Keys without a row are absent. The call reads
    /// one entry per key, regardless of the number of rows.
    async fn last_used(&self, account: AccountId) -> Result<BTreeMap<KeyId, Timestamp>>;
}

#[cfg(test)]
mod tests {
    use super::split_target;

    #[test]
    fn targets_split_into_provider_and_model() {
        for (target, provider, model) in [
            ("", "", None),
            // Earlier versions of the gateway recorded only the provider.
            ("acme", "acme", None),
            ("acme/large-5", "acme", Some("large-5")),
            ("rack/vendor/small:7b", "rack", Some("vendor/small:7b")),
        ] {
            assert_eq!(split_target(target), (provider, model), "{target}");
        }
    }
}
