//! Query parameters and responses of the calls of an account.

use serde::{Deserialize, Serialize};
use tollgate_operations::receipts::{ReceiptLine, ReceiptView};
use tollgate_operations::view::TransferView;
use tollgate_storage::{OutcomeFilter, UsageFilter, UsagePage, UsageRow};
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, HoldId};
use utoipa::{IntoParams, ToSchema};

use crate::usage::wire::{UsageClasses, UsageRecord, id, instant, invalid, page_limit};

/// Filters and pagination of a list of calls.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CallsQuery {
    /// Start time, inclusive: RFC 3339 (`2026-11-20T00:00:00Z`) or a date (`2026-11-20`).
    from: Option<String>,
    /// End time, exclusive, in the same formats as `from`.
    to: Option<String>,
    /// Filter by model: canonical id, alias or bare name.
    model: Option<String>,
    /// Filter by key id.
    key_id: Option<String>,
    /// Filter by the member who made the call in the console.
    member_id: Option<String>,
    /// Filter by endpoint, such as `/v1/chat/completions`.
    endpoint: Option<String>,
    /// Filter by outcome, such as `ok` or `timeout`; `error` selects all outcomes except `ok`.
    outcome: Option<String>,
    /// Filter by request id.
    request_id: Option<String>,
    /// Number of calls per page: 1 to 100, default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
}

impl CallsQuery {
    pub(super) fn decode(self) -> Result<(UsageFilter, UsagePage), Error> {
        let page = UsagePage {
            after: id("after", self.after)?,
            limit: page_limit(self.limit)?,
        };
        let filter = UsageFilter {
            from: instant("from", self.from)?,
            to: instant("to", self.to)?,
            model: self.model,
            key: id("key_id", self.key_id)?,
            member: id("member_id", self.member_id)?,
            endpoint: self.endpoint,
            outcome: self.outcome.as_deref().map(outcome).transpose()?,
            request: id("request_id", self.request_id)?,
            ..UsageFilter::default()
        };
        Ok((filter, page))
    }
}

fn outcome(name: &str) -> Result<OutcomeFilter, Error> {
    if name == "error" {
        return Ok(OutcomeFilter::ExceptOk);
    }
    let outcome = Outcome::parse(name).map(OutcomeFilter::Only);
    outcome.ok_or_else(|| {
        invalid(
            "outcome",
            "'outcome' must be 'error' or an outcome such as 'ok' or 'timeout'.",
        )
    })
}

/// A page of calls, newest first.
#[derive(Serialize, ToSchema)]
pub struct CallList {
    /// The calls. With a filter, a page may have fewer calls than `limit`, or none, although more
    /// match, because a request reads a bounded number of calls.
    pub data: Vec<UsageRecord>,
    /// Whether more (older) calls may match.
    pub has_more: bool,
    /// Cursor of the next page; null after the last page.
    #[schema(value_type = Option<String>)]
    pub next: Option<HoldId>,
}

/// A call with its timeline, its charge and its transfers.
#[derive(Serialize, ToSchema)]
pub struct CallDetail {
    /// The call, as in the list.
    pub call: UsageRecord,
    /// Times of the call.
    pub timeline: Timeline,
    /// Arithmetic of the charge; null if the prices of the call are not recorded.
    pub receipt: Option<Receipt>,
    /// Transfers of the call in the ledger, in order.
    pub transfers: Vec<Transfer>,
}

/// Times of a call, RFC 3339 in UTC.
#[derive(Serialize, ToSchema)]
pub struct Timeline {
    /// Time when the request was accepted.
    pub accepted_at: String,
    /// Time of the first content of the response; null if none was produced.
    pub first_content_at: Option<String>,
    /// Time when the call ended.
    pub ended_at: String,
}

impl Timeline {
    pub(super) fn of(row: &UsageRow) -> Self {
        Self {
            accepted_at: row.created_at.to_rfc3339(),
            first_content_at: row.first_at.map(|at| at.to_rfc3339()),
            ended_at: row.ended_at.to_rfc3339(),
        }
    }
}

/// Arithmetic of a charge. Amounts are credits as decimal strings.
#[derive(Serialize, ToSchema)]
pub struct Receipt {
    /// Consumption by unit.
    pub lines: Vec<Line>,
    /// Prompt size in tokens above which long-prompt prices apply; null if they did not apply.
    pub long_prompt_above: Option<u64>,
    /// Separately priced parts of the call, such as the scenes of a composed video.
    pub parts: Vec<Part>,
    /// Requests of a batch; null for other calls.
    pub requests: Option<Requests>,
    /// Cost of lines, parts and requests, rounded up to a nano-credit.
    #[schema(value_type = String)]
    pub cost: Credits,
    /// Credits that were held for the call.
    #[schema(value_type = String)]
    pub held_credits: Credits,
    /// Plan allowance that was held for the call.
    #[schema(value_type = String)]
    pub held_allowance: Credits,
    /// Part of the charge that the plan's allowance paid.
    #[schema(value_type = String)]
    pub included: Credits,
    /// Part of the charge that credits paid.
    #[schema(value_type = String)]
    pub paid: Credits,
    /// Charged amount: `included` plus `paid`. Never more than the held amount.
    #[schema(value_type = String)]
    pub charge: Credits,
    /// Refunded part of the charge.
    #[schema(value_type = String)]
    pub refunded: Credits,
}

impl Receipt {
    pub(super) fn of(receipt: &ReceiptView) -> Self {
        let requests = receipt.requests.as_ref();
        Self {
            lines: receipt.lines.iter().map(Line::of).collect(),
            long_prompt_above: receipt.long_prompt_above,
            parts: receipt
                .parts
                .iter()
                .map(|part| Part {
                    name: part.name.clone(),
                    model: part.model.clone(),
                    lines: part.lines.iter().map(Line::of).collect(),
                    cost: part.cost,
                })
                .collect(),
            requests: requests.map(|requests| Requests {
                count: requests.count,
                cost: requests.cost,
            }),
            cost: receipt.cost,
            held_credits: receipt.held_credits,
            held_allowance: receipt.held_allowance,
            included: receipt.included,
            paid: receipt.paid,
            charge: receipt.charge,
            refunded: receipt.refunded,
        }
    }
}

/// Consumption of a unit.
#[derive(Serialize, ToSchema)]
pub struct Line {
    /// Name of the unit, such as `input` or `image`.
    pub class: String,
    /// Consumed quantity, in tokens or in the unit of the class.
    pub tokens: u64,
    /// Price in credits per 1,000,000 units.
    #[schema(value_type = String)]
    pub price: Credits,
    /// Quantity × price in millionths of a nano-credit, as a decimal string.
    pub product: String,
}

impl Line {
    fn of(line: &ReceiptLine) -> Self {
        Self {
            class: line.class.clone(),
            tokens: line.tokens,
            price: line.price,
            product: line.product.clone(),
        }
    }
}

/// A separately priced part of a call.
#[derive(Serialize, ToSchema)]
pub struct Part {
    /// Name of the part, such as `scene 3`.
    pub name: String,
    /// Canonical id of the model.
    pub model: String,
    /// Consumption by unit.
    pub lines: Vec<Line>,
    /// Cost of the part.
    #[schema(value_type = String)]
    pub cost: Credits,
}

/// The requests of a batch.
#[derive(Serialize, ToSchema)]
pub struct Requests {
    /// Number of started requests.
    pub count: usize,
    /// Cost of all requests.
    #[schema(value_type = String)]
    pub cost: Credits,
}

/// A transfer between two accounts of the ledger.
#[derive(Serialize, ToSchema)]
pub struct Transfer {
    /// Leg of the call's transfers, such as `hold` or `settle`.
    pub leg: String,
    /// Debited ledger account, such as `held`.
    pub from: String,
    /// Credited ledger account, such as `revenue`.
    pub to: String,
    /// Credits that were moved.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Time of the transfer, RFC 3339.
    pub at: String,
    /// Position in the account's hash chain; null for transfers older than the chain.
    pub sequence: Option<i64>,
}

impl Transfer {
    pub(super) fn of(transfer: &TransferView) -> Self {
        Self {
            leg: transfer.leg.clone(),
            from: transfer.debit.clone(),
            to: transfer.credit.clone(),
            amount: transfer.amount,
            at: transfer.created_at.clone(),
            sequence: transfer.sequence,
        }
    }
}

/// A call as a row of CSV.
#[derive(Serialize)]
pub(super) struct CsvRow {
    request_id: String,
    created_at: String,
    ended_at: String,
    endpoint: String,
    model: String,
    requested_model: String,
    key_id: Option<String>,
    member_id: Option<String>,
    outcome: &'static str,
    estimated: bool,
    first_content_ms: Option<u64>,
    duration_ms: u64,
    #[serde(flatten)]
    usage: UsageClasses,
    cost: String,
    included: String,
    refunded: String,
    plan_name: Option<String>,
    price_version: String,
}

impl CsvRow {
    pub(super) fn of(row: &UsageRow) -> Self {
        let record = UsageRecord::of(row, &[]);
        Self {
            request_id: record.request_id,
            created_at: record.created_at,
            ended_at: row.ended_at.to_rfc3339(),
            endpoint: record.endpoint,
            model: row.model.to_string(),
            requested_model: row.requested_model.to_string(),
            key_id: record.key_id,
            member_id: record.member_id,
            outcome: row.outcome.as_str(),
            estimated: record.estimated,
            first_content_ms: record.first_content_ms,
            duration_ms: record.duration_ms,
            usage: record.usage,
            cost: record.cost,
            included: record.included,
            refunded: record.refunded,
            plan_name: record.plan_name,
            price_version: record.price_version,
        }
    }
}
