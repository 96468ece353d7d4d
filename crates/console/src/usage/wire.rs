//! Query parameters and response of the usage API.

use serde::{Deserialize, Serialize};
use tollgate_storage::subscription::Week;
use tollgate_storage::{Subscription, UsageFilter, UsageGroup, UsagePage, UsagePart, UsageRow, UsageTotal};
use tollgate_types::{Credits, Error, ErrorCode, Principal, Timestamp, Unit, Usage};
use utoipa::{IntoParams, ToSchema};

use super::service::UsageRequest;

const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;

/// Filters and pagination of a usage query.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Start time, inclusive: RFC 3339 (`2026-11-20T00:00:00Z`) or a date (`2026-11-20`).
    from: Option<String>,
    /// End time, exclusive, in the same formats as `from`.
    to: Option<String>,
    /// Filter by model: canonical id, alias or bare name.
    model: Option<String>,
    /// Filter by the model name in the request.
    requested_model: Option<String>,
    /// Filter by the model name at the provider.
    upstream_model: Option<String>,
    /// Filter by key id.
    key_id: Option<String>,
    /// Filter by the member who made the call with a session of the console.
    member_id: Option<String>,
    /// Filter by endpoint, such as `/v1/chat/completions`.
    endpoint: Option<String>,
    /// Filter by request id.
    request_id: Option<String>,
    /// Group totals by `day`, `model`, `requested_model`, `upstream_model`, `key`, `member` or
    /// `endpoint`, in `totals.groups`.
    group_by: Option<String>,
    /// Number of rows per page: 1 to 100, default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Cursor: the `id` of the previous page's last row.
    after: Option<String>,
}

impl UsageQuery {
    pub(super) fn decode(self) -> Result<UsageRequest, Error> {
        let filter = UsageFilter {
            from: instant("from", self.from)?,
            to: instant("to", self.to)?,
            model: self.model,
            requested_model: self.requested_model,
            upstream_model: self.upstream_model,
            key: id("key_id", self.key_id)?,
            member: id("member_id", self.member_id)?,
            endpoint: self.endpoint,
            outcome: None,
            request: id("request_id", self.request_id)?,
        };
        let group = self.group_by.as_deref().map(group_by).transpose()?;
        Ok(UsageRequest {
            filter,
            page: UsagePage {
                after: id("after", self.after)?,
                limit: page_limit(self.limit)?,
            },
            group,
        })
    }
}

/// Returns the number of results per page: 1 to 100, default 20.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<u32, Error> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    match (1..=MAX_LIMIT).contains(&limit) {
        true => Ok(limit),
        false => Err(invalid("limit", "'limit' must be an integer from 1 to 100.")),
    }
}

pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

fn group_by(name: &str) -> Result<UsageGroup, Error> {
    match name {
        "day" => Ok(UsageGroup::Day),
        "model" => Ok(UsageGroup::Model),
        "requested_model" => Ok(UsageGroup::RequestedModel),
        "upstream_model" => Ok(UsageGroup::UpstreamModel),
        "key" => Ok(UsageGroup::Key),
        "member" => Ok(UsageGroup::Member),
        "endpoint" => Ok(UsageGroup::Endpoint),
        _ => Err(invalid(
            "group_by",
            "'group_by' must be 'day', 'model', 'requested_model', 'upstream_model', 'key', 'member' or 'endpoint'.",
        )),
    }
}

pub(crate) fn id<T: std::str::FromStr>(param: &str, text: Option<String>) -> Result<Option<T>, Error> {
    let parse = |text: String| {
        text.parse()
            .map_err(|_| invalid(param, format!("'{param}' is not a valid id.")))
    };
    text.map(parse).transpose()
}

pub(crate) fn instant(param: &str, text: Option<String>) -> Result<Option<Timestamp>, Error> {
    let Some(text) = text else { return Ok(None) };
    let at = Timestamp::parse(&text).ok_or_else(|| {
        invalid(
            param,
            format!("'{param}' must be a time such as 2026-11-20T00:00:00Z or a date such as 2026-11-20."),
        )
    })?;
    Ok(Some(at))
}

/// Usage and cost of an account.
#[derive(Serialize, ToSchema)]
pub struct AccountUsage {
    /// Current balance of the account.
    pub balance: BalanceRecord,
    /// Current or most recent subscription; null if the account never had one.
    pub plan: Option<PlanRecord>,
    /// One page of usage rows, newest first.
    pub data: Vec<UsageRecord>,
    /// Totals over all matching rows, not only this page.
    pub totals: Totals,
    /// Whether more (older) rows match.
    pub has_more: bool,
}

/// The account's current or most recent plan.
#[derive(Serialize, ToSchema)]
pub struct PlanRecord {
    /// Plan name, as in the settings.
    pub tier: String,
    /// `active`, `past_due`, `canceled` or `expired`. Only an active plan grants access.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// Billing period: `monthly` or `yearly`.
    #[schema(value_type = String)]
    pub cadence: &'static str,
    /// End of the paid period, RFC 3339 in UTC.
    pub paid_through: String,
    /// Whether the plan ends at `paid_through`.
    pub cancel_at_period_end: bool,
    /// Current week; null if no week is open, such as after the end of the plan.
    pub weekly_window: Option<WeeklyWindow>,
}

/// One week of a plan. Amounts are credits as decimal strings.
#[derive(Serialize, ToSchema)]
pub struct WeeklyWindow {
    /// Start of the week, RFC 3339 in UTC.
    pub start: String,
    /// End of the week, RFC 3339 in UTC.
    pub end: String,
    /// Allowance of the week.
    pub limit: String,
    /// Allowance used, or held by running calls.
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

/// Balance in credits, as decimal strings.
#[derive(Serialize, ToSchema)]
pub struct BalanceRecord {
    /// Credits available to spend.
    pub credits: String,
    /// Credits held by running calls.
    pub held: String,
}

/// Usage and cost of one call. Prompts and responses are not included.
#[derive(Serialize, ToSchema)]
pub struct UsageRecord {
    /// Id of the usage row.
    pub id: String,
    /// Request id (`x-request-id`) of the call.
    pub request_id: String,
    /// Time at which the request was accepted, RFC 3339 in UTC.
    pub created_at: String,
    /// Canonical id of the model.
    pub model: Option<String>,
    /// Model as requested: an id, an alias or a bare name.
    pub requested_model: Option<String>,
    /// The provider's name of the model. Null if no provider served the call, or if several models
    /// served parts of it.
    pub upstream_model: Option<String>,
    /// Id of the API key that made the call; null if the call was made without a key.
    pub key_id: Option<String>,
    /// Id of the member who made the call with a session of the console; null for calls with a key.
    pub member_id: Option<String>,
    /// API path, such as `/v1/chat/completions`.
    pub endpoint: String,
    /// Usage of the call by class.
    pub usage: UsageClasses,
    /// Usage per model, in order, if several models served the call. `usage` is the sum of the
    /// parts. Each part is priced by its model; `cost` is their total, up to the held amount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<UsagePartRecord>,
    /// Cost in credits as a decimal string, including the part that a plan's allowance paid.
    pub cost: String,
    /// Part of the cost paid by a plan's allowance, in credits as a decimal string.
    pub included: String,
    /// Refunded part of the cost, in credits as a decimal string.
    pub refunded: String,
    /// Outcome: `ok`, `client_gone`, `upstream_error`, `timeout`, `blocked_input`,
    /// `blocked_output`, `cancelled` or `crashed`.
    pub outcome: String,
    /// Whether the gateway estimated the usage, because the provider reported none or too little.
    pub estimated: bool,
    /// Coverage of the cost by the plan's allowance: `none`, `partly` or `fully`.
    #[schema(value_type = String)]
    pub coverage: &'static str,
    /// Name of the plan that applied when the call started; null if none applied.
    pub plan_name: Option<String>,
    /// Version of the applied prices.
    pub price_version: String,
    /// Time to first content, in milliseconds; null if no content arrived.
    pub first_content_ms: Option<u64>,
    /// Total duration in milliseconds.
    pub duration_ms: u64,
    /// Always null. Reserved for the type of a resource other than a model.
    pub resource_type: Option<String>,
    /// Always null. Reserved for the id of a resource other than a model.
    pub resource_id: Option<String>,
    /// Always null. Reserved for the id of the row that this row is a part of.
    pub parent_id: Option<String>,
    /// Always null. Reserved for the start of a paid period.
    pub period_start: Option<String>,
    /// Always null. Reserved for the end of a paid period.
    pub period_end: Option<String>,
}

/// Usage of one model within a call.
#[derive(Serialize, ToSchema)]
pub struct UsagePartRecord {
    /// Name of the part, such as `script` or `scene 3`.
    pub name: String,
    /// Canonical id of the model.
    pub model: String,
    /// The provider's name of the model; null if it is not recorded.
    pub upstream_model: Option<String>,
    /// Usage of the part by class.
    pub usage: UsageClasses,
    /// Cost of the part, in credits as a decimal string.
    pub cost: String,
    /// Version of the applied prices.
    pub price_version: String,
}

/// Usage by class. The classes do not overlap.
#[derive(Default, Serialize, ToSchema)]
pub struct UsageClasses {
    /// Input tokens that were neither read from a cache nor written to it.
    pub input_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's short-lived cache (minutes).
    pub cache_write_tokens: u64,
    /// Input tokens written to the provider's one-hour cache.
    pub cache_write_1h_tokens: u64,
    /// Audio tokens in the prompt.
    pub input_audio_tokens: u64,
    /// Output tokens of the visible response.
    pub output_tokens: u64,
    /// Output tokens that the model spent on reasoning.
    pub reasoning_tokens: u64,
    /// Audio tokens in the response.
    pub output_audio_tokens: u64,
    /// Sum of all token classes.
    pub total_tokens: u64,
    /// Generated images, in standard images. An image at twice the price counts as two.
    pub images: f64,
    /// Generated video in seconds of standard video.
    pub video_seconds: f64,
    /// Generated or transcribed audio in seconds.
    pub audio_seconds: f64,
    /// `images` in millionths, as an exact integer.
    pub image_millionths: u64,
    /// `video_seconds` in microseconds, as an exact integer.
    pub video_microseconds: u64,
    /// `audio_seconds` in microseconds, as an exact integer.
    pub audio_microseconds: u64,
    /// Characters of text that were converted to speech.
    pub characters: u64,
    /// Queries to search backends.
    pub searches: u64,
    /// Image tokens in the prompt, if the provider counts them separately. Otherwise they are
    /// `input_tokens`.
    pub input_image_tokens: u64,
    /// Audio tokens read from the provider's cache, if the provider counts them separately.
    /// Otherwise they are `cache_read_tokens`.
    pub cache_read_audio_tokens: u64,
}

/// Number, cost and usage of several usage rows together.
#[derive(Serialize, ToSchema)]
pub struct Totals {
    /// Number of usage rows.
    pub requests: u64,
    /// Total cost in credits as a decimal string, including the parts that plan allowances paid.
    pub cost: String,
    /// Total usage by class.
    pub usage: UsageClasses,
    /// Totals per group of `group_by`; absent if there are no groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTotals>,
}

/// Totals over the rows of one group.
#[derive(Serialize, ToSchema)]
pub struct GroupTotals {
    /// Value that the rows of the group share: a day (`2026-11-20`), a model name, a key id or an
    /// endpoint path.
    pub group: String,
    /// Totals over the rows of the group.
    #[serde(flatten)]
    #[schema(no_recursion)]
    pub totals: Totals,
}

impl From<&Usage> for UsageClasses {
    fn from(usage: &Usage) -> Self {
        let plain = |unit| usage.get(unit) as f64 / 1e6;
        Self {
            images: plain(Unit::Image),
            video_seconds: plain(Unit::Video),
            audio_seconds: plain(Unit::Audio),
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
            searches: usage.searches(),
            input_image_tokens: usage.get(Unit::InputImage),
            cache_read_audio_tokens: usage.get(Unit::CacheReadAudio),
        }
    }
}

impl Default for Totals {
    /// Returns totals of zero.
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
            upstream_model: part.upstream_model().map(str::to_owned),
            usage: (&part.usage).into(),
            cost: part.cost.to_string(),
            price_version: part.price_version.to_string(),
        }
    }
}

impl UsageRecord {
    pub(crate) fn of(row: &UsageRow, parts: &[UsagePart]) -> Self {
        let millis = |at: Timestamp| u64::try_from(at.since(row.created_at).as_millis()).unwrap_or(u64::MAX);
        Self {
            id: row.id.to_string(),
            request_id: row.request.to_string(),
            created_at: row.created_at.to_rfc3339(),
            model: Some(row.model.to_string()),
            requested_model: Some(row.requested_model.to_string()),
            upstream_model: row.upstream_model().map(str::to_owned),
            key_id: row.principal.and_then(Principal::key).map(|key| key.to_string()),
            member_id: row
                .principal
                .and_then(Principal::member)
                .map(|member| member.to_string()),
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
