//! Reports of providers' own research models. The provider searches, reads and writes; the gateway
//! then fetches the cited pages and checks each citation.
//!
//! `step` executes the provider's job, `text` finds the cited statements of its report, `evidence`
//! looks for their quotes in the pages, and `result` assembles the result.

mod evidence;
mod result;
mod step;
mod text;

use serde::{Deserialize, Serialize};
use tollgate_catalog::ReportLimits;
use tollgate_types::{Error, ErrorCode, Prices, Unit, Usage};
use tollgate_upstream::{ReportCall, ReportMessage, ReportRole, SearchFilters};

pub(super) use step::{RELAY_STEP, execute};

use super::cast::QUERY;
use super::effort::Effort;
use super::read::{Message, Request, Role, SourceSpec};

/// Settings of a report that a provider's own model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RelayOrder {
    effort: Effort,
    /// Limits that the request sets.
    max_output_tokens: Option<u64>,
    max_searches: Option<u32>,
    max_pages: Option<u32>,
    /// Consumption that the hold pays for.
    limits: ReportLimits,
}

impl RelayOrder {
    /// Returns the order of a request. The limits of the request also limit the hold.
    pub(super) fn new(request: &Request, effort: Effort, limits: ReportLimits) -> Self {
        let max_output = request
            .max_output_tokens
            .map_or(limits.max_output, |tokens| tokens.min(limits.max_output));
        let max_searches = request.max_searches.map_or(limits.max_searches, |searches| {
            limits.max_searches.min(searches.into())
        });
        Self {
            effort,
            max_output_tokens: request.max_output_tokens,
            max_searches: request.max_searches,
            max_pages: request.max_pages,
            limits: ReportLimits {
                max_output,
                max_searches,
                ..limits
            },
        }
    }

    /// Returns the most expensive consumption within the limits.
    pub(super) fn max_usage(&self, prices: &Prices) -> Usage {
        let costlier = |one: Unit, other: Unit| match prices.per_million(other) > prices.per_million(one) {
            true => other,
            false => one,
        };
        Usage::ZERO
            .with(costlier(Unit::Input, Unit::CacheRead), self.limits.max_input)
            .with(costlier(Unit::Output, Unit::Reasoning), self.limits.max_output)
            .with(Unit::Search, self.limits.max_searches.saturating_mul(QUERY))
    }
}

/// Returns an error for a source other than the web: providers search nothing else.
pub(super) fn check_sources(sources: &[SourceSpec]) -> Result<(), Error> {
    let other = sources.iter().position(|source| *source != SourceSpec::Web);
    let Some(at) = other else { return Ok(()) };
    let param = format!("sources[{at}].type");
    let message = format!("'{param}' must be 'web': this model searches only the web.");
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(param))
}

/// Returns the provider's call for these parts of a request.
pub(super) fn call(
    messages: &[Message],
    instructions: Option<&String>,
    filters: &SearchFilters,
    order: &RelayOrder,
) -> ReportCall {
    let messages = messages.iter().map(|message| ReportMessage {
        role: match message.role {
            Role::System => ReportRole::System,
            Role::User => ReportRole::User,
            Role::Assistant => ReportRole::Assistant,
        },
        text: message.text.clone(),
    });
    ReportCall {
        upstream_model: "".into(),
        messages: messages.collect(),
        instructions: instructions.cloned(),
        effort: order.effort.as_str(),
        max_output_tokens: order.max_output_tokens,
        max_searches: order.max_searches,
        max_pages: order.max_pages,
        paid_searches: order.limits.max_searches,
        filters: filters.clone(),
    }
}
