//! Query and answer (choices, M10).

use serde::{Deserialize, Serialize};
use tollgate_storage::subscription::Week;
use tollgate_storage::{Subscription, UsageFilter, UsageGroup, UsagePage, UsagePart, UsageRow, UsageTotal};
use tollgate_types::{Credits, Error, ErrorCode, Timestamp, Unit, Usage};
use utoipa::{IntoParams, ToSchema};

use super::service::Wanted;

const DEFAULT_LIMIT: u32 = 20;
const MOST_LIMIT: u32 = 100;

/// What to read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Rows at or after this instant: RFC 3339 (`2026-11-20T00:00:00Z`) or a date (`2026-11-20`).
    from: Option<String>,
    /// Rows before this instant.
    to: Option<String>,
    /// Rows of this model, as the request named it.
    model: Option<String>,
    /// Rows of this key.
    key_id: Option<String>,
    /// Rows of this endpoint, such as `/v1/chat/completions`.
    endpoint: Option<String>,
    /// The rows of one request.
    request_id: Option<String>,
    /// Sums by `day`, `model`, `key` or `endpoint`, in `totals.groups`.
    group_by: Option<String>,
    /// Rows on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last row of the page before.
    after: Option<String>,
}

impl UsageQuery {
    pub(super) fn decode(self) -> Result<Wanted, Error> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MOST_LIMIT).contains(&limit) {
            return Err(invalid("limit", "'limit' is 1 to 100."));
        }
        let filter = UsageFilter {
            from: instant("from", self.from)?,
            to: instant("to", self.to)?,
            model: self.model,
            key: id("key_id", self.key_id)?,
            endpoint: self.endpoint,
            request: id("request_id", self.request_id)?,
        };
        let group = self.group_by.as_deref().map(group_by).transpose()?;
        Ok(Wanted {
            filter,
            page: UsagePage {
                after: id("after", self.after)?,
                limit,
            },
            group,
        })
    }
}

fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

fn group_by(name: &str) -> Result<UsageGroup, Error> {
    match name {
        "day" => Ok(UsageGroup::Day),
        "model" => Ok(UsageGroup::Model),
        "key" => Ok(UsageGroup::Key),
        "endpoint" => Ok(UsageGroup::Endpoint),
        _ => Err(invalid(
            "group_by",
            "'group_by' is 'day', 'model', 'key' or 'endpoint'.",
        )),
    }
}

fn id<T: std::str::FromStr>(param: &str, text: Option<String>) -> Result<Option<T>, Error> {
    let parse = |text: String| {
        text.parse()
            .map_err(|_| invalid(param, format!("'{param}' is not an id of this service.")))
    };
    text.map(parse).transpose()
}

fn instant(param: &str, text: Option<String>) -> Result<Option<Timestamp>, Error> {
    let Some(text) = text else { return Ok(None) };
    let at = Timestamp::parse(&text).ok_or_else(|| {
        invalid(
            param,
            format!("'{param}' is an instant such as 2026-11-20T00:00:00Z or a date such as 2026-11-20."),
        )
    })?;
    Ok(Some(at))
}

/// Usage and spend of an account.
#[derive(Serialize, ToSchema)]
pub struct AccountUsage {
    /// What is left.
    pub balance: BalanceRecord,
    /// The subscription; null for an account without one.
    pub plan: Option<PlanRecord>,
    /// A page of rows, newest first.
    pub data: Vec<UsageRecord>,
    /// Sums over every row that matches, not only over the page.
    pub totals: Totals,
    /// Whether older rows match.
    pub has_more: bool,
}

/// The plan that the account has, or had last.
#[derive(Serialize, ToSchema)]
pub struct PlanRecord {
    /// Its name.
    pub tier: String,
    /// `active`, `past_due`, `canceled` or `expired`. Only an active plan gives access.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// How long a period is: `monthly` or `yearly`.
    #[schema(value_type = String)]
    pub cadence: &'static str,
    /// When what was paid for is over, RFC 3339 in UTC.
    pub paid_through: String,
    /// Whether the plan ends then.
    pub cancel_at_period_end: bool,
    /// The week; null once the plan has ended.
    pub weekly_window: Option<WeeklyWindow>,
}

/// A week of a plan. Its amounts are credits as decimal strings.
#[derive(Serialize, ToSchema)]
pub struct WeeklyWindow {
    /// When it begins, RFC 3339 in UTC.
    pub start: String,
    /// When it is over.
    pub end: String,
    /// What it includes.
    pub limit: String,
    /// How much of that is used, or held by calls that run.
    pub used: String,
}

impl PlanRecord {
    pub(super) fn of(plan: &Subscription, week: Option<Week>) -> Self {
        Self {
            tier: plan.terms.subject.to_string(),
            status: plan.state.as_str(),
            cadence: plan.terms.cadence.as_str(),
            paid_through: plan.terms.paid_through.to_rfc3339(),
            cancel_at_period_end: plan.cancel_at_period_end,
            weekly_window: week.map(|week| WeeklyWindow {
                start: week.start.to_rfc3339(),
                end: week.end.to_rfc3339(),
                limit: week.limit.to_string(),
                used: week.used.to_string(),
            }),
        }
    }
}

/// What is left, in credits as decimal strings.
#[derive(Serialize, ToSchema)]
pub struct BalanceRecord {
    /// What can be spent.
    pub credits: String,
    /// What is held by calls that run.
    pub held: String,
}

/// What one call consumed and cost. It holds no text of prompt or answer.
#[derive(Serialize, ToSchema)]
pub struct UsageRecord {
    /// Id of the row.
    pub id: String,
    /// The request's `x-request-id`.
    pub request_id: String,
    /// When it was accepted, RFC 3339 in UTC.
    pub created_at: String,
    /// The model as the request named it.
    pub model: Option<String>,
    /// The key that was used.
    pub key_id: Option<String>,
    /// The path.
    pub endpoint: String,
    /// What it consumed.
    pub usage: UsageClasses,
    /// What each model did, in order, when several did: the entry's usage is the sum of theirs. They are priced by their own
    /// models' prices, and `cost` is what they cost together, as far as it was held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<UsagePartRecord>,
    /// What it cost, in credits as a decimal string, what a plan included of it as well.
    pub cost: String,
    /// How much of the cost a plan's allowance paid, in credits as a decimal string.
    pub included: String,
    /// How much of the cost was given back, in credits as a decimal string.
    pub refunded: String,
    /// How it ended: `ok`, `client_gone`, `upstream_error`, `timeout`, `crashed`, …
    pub outcome: String,
    /// Whether the gateway counted because no report came.
    pub estimated: bool,
    /// Whether a plan covered it: `none`, `partly`, `fully`.
    #[schema(value_type = String)]
    pub coverage: &'static str,
    /// The plan at the time of the request.
    pub plan_name: Option<String>,
    /// Names the prices that applied.
    pub price_version: String,
    /// Milliseconds until the first content.
    pub first_content_ms: Option<u64>,
    /// Milliseconds until the end.
    pub duration_ms: u64,
    /// What kind of thing was used, when it is not a model.
    pub resource_type: Option<String>,
    /// Which one.
    pub resource_id: Option<String>,
    /// The row that this one is a part of.
    pub parent_id: Option<String>,
    /// The beginning of the period that was paid for.
    pub period_start: Option<String>,
    /// Its end.
    pub period_end: Option<String>,
}

/// What one model did of an entry.
#[derive(Serialize, ToSchema)]
pub struct UsagePartRecord {
    /// What it is, such as `script` or `scene 3`.
    pub name: String,
    /// The model.
    pub model: String,
    /// What it consumed.
    pub usage: UsageClasses,
    /// What that costs, in credits as a decimal string.
    pub cost: String,
    /// Names the prices that applied.
    pub price_version: String,
}

/// What was consumed, in classes that do not overlap.
#[derive(Default, Serialize, ToSchema)]
pub struct UsageClasses {
    /// Read afresh.
    pub input_tokens: u64,
    /// Read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Written into it for some minutes.
    pub cache_write_tokens: u64,
    /// Written into it for an hour.
    pub cache_write_1h_tokens: u64,
    /// Of sound that went in.
    pub input_audio_tokens: u64,
    /// Of the visible answer.
    pub output_tokens: u64,
    /// Of reasoning.
    pub reasoning_tokens: u64,
    /// Of sound that came out.
    pub output_audio_tokens: u64,
    /// All of them.
    pub total_tokens: u64,
    /// Pictures that were made, in millionths of a plain one.
    pub image_millionths: u64,
    /// Film that was made, in microseconds of plain film.
    pub video_microseconds: u64,
    /// Sound that was made or heard, in microseconds.
    pub audio_microseconds: u64,
    /// Characters that were spoken.
    pub characters: u64,
}

/// Sums over rows.
#[derive(Serialize, ToSchema)]
pub struct Totals {
    /// Rows.
    pub requests: u64,
    /// What they cost, in credits as a decimal string, what plans included of it as well.
    pub cost: String,
    /// What they consumed.
    pub usage: UsageClasses,
    /// Sums by what `group_by` says; empty without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTotals>,
}

/// Sums over the rows of one group.
#[derive(Serialize, ToSchema)]
pub struct GroupTotals {
    /// The day, model, key id or path.
    pub group: String,
    /// The sums.
    #[serde(flatten)]
    #[schema(no_recursion)]
    pub totals: Totals,
}

impl From<&Usage> for UsageClasses {
    fn from(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.get(Unit::Input),
            cache_read_tokens: usage.get(Unit::CacheRead),
            cache_write_tokens: usage.get(Unit::CacheWrite),
            cache_write_1h_tokens: usage.get(Unit::CacheWriteHour),
            input_audio_tokens: usage.get(Unit::InputAudio),
            output_tokens: usage.get(Unit::Output),
            reasoning_tokens: usage.get(Unit::Reasoning),
            output_audio_tokens: usage.get(Unit::OutputAudio),
            total_tokens: usage.total(),
            image_millionths: usage.get(Unit::Image),
            video_microseconds: usage.get(Unit::Video),
            audio_microseconds: usage.get(Unit::Audio),
            characters: usage.get(Unit::Character),
        }
    }
}

impl Default for Totals {
    /// Sums over no rows.
    fn default() -> Self {
        Self {
            requests: 0,
            cost: Credits::ZERO.to_string(),
            usage: UsageClasses::default(),
            groups: Vec::new(),
        }
    }
}

impl From<&UsageTotal> for Totals {
    fn from(total: &UsageTotal) -> Self {
        let usage = (&total.usage).into();
        Self {
            requests: total.requests,
            cost: total.charge.to_string(),
            usage,
            groups: Vec::new(),
        }
    }
}

impl From<&UsagePart> for UsagePartRecord {
    fn from(part: &UsagePart) -> Self {
        Self {
            name: part.name.to_string(),
            model: part.model.to_string(),
            usage: (&part.usage).into(),
            cost: part.cost.to_string(),
            price_version: part.price_version.to_string(),
        }
    }
}

impl UsageRecord {
    pub(super) fn of(row: &UsageRow, parts: &[UsagePart]) -> Self {
        let millis = |at: Timestamp| u64::try_from(at.since(row.created_at).as_millis()).unwrap_or(u64::MAX);
        Self {
            id: row.id.to_string(),
            request_id: row.request.to_string(),
            created_at: row.created_at.to_rfc3339(),
            model: Some(row.model.to_string()),
            key_id: row.key.map(|key| key.to_string()),
            endpoint: row.endpoint.to_string(),
            usage: (&row.usage).into(),
            parts: parts.iter().map(UsagePartRecord::from).collect(),
            cost: row.charge.to_string(),
            refunded: row.refunded.to_string(),
            outcome: row.outcome.as_str().to_owned(),
            estimated: row.estimated,
            included: row.included.to_string(),
            coverage: row.coverage().as_str(),
            plan_name: row.plan.as_ref().map(|plan| plan.name.to_string()),
            price_version: row.price_version.to_string(),
            first_content_ms: row.first_at.map(millis),
            duration_ms: millis(row.ended_at),
            resource_type: None,
            resource_id: None,
            parent_id: None,
            period_start: None,
            period_end: None,
        }
    }
}
