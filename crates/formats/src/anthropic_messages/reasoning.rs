//! Reasoning parameters of Claude models.

use tollgate_types::generate::{GenerateRequest, Thinking, ToolChoice};
use tollgate_types::{Abilities, Effort, Error, ReasoningControl, RequestedReasoning};

use super::compatibility::unsupported;

/// Minimum reasoning budget that the format accepts, in tokens. `max_tokens` must exceed the
/// budget.
const MIN_BUDGET: u64 = 1_024;

/// Reasoning parameters of a request for an upstream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// `type` of `thinking`.
    pub(crate) kind: &'static str,
    /// `budget_tokens` of `thinking`.
    pub(crate) budget_tokens: Option<u64>,
    /// `effort` of `output_config`.
    pub(crate) effort: Option<&'static str>,
}

/// Returns the reasoning parameters to send; `None` if the request has none, or if an effort must
/// become a budget and `cap`, the maximum number of output tokens, is too low for any budget.
pub(crate) fn control(request: &GenerateRequest, abilities: &Abilities, cap: u64) -> Option<Control> {
    let sent = request.reasoning_effort.as_deref().and_then(Effort::parse);
    let sent = sent.filter(|effort| *effort != Effort::None);
    let known = abilities.reasoning_control.unwrap_or(ReasoningControl::Both);
    let by_effort = |effort: Option<Effort>| Control {
        kind: match request.thinking {
            Some(Thinking::BetweenTools) => "between_tools",
            _ => "adaptive",
        },
        budget_tokens: None,
        effort: effort.map(|effort| name(abilities, effort)),
    };
    let by_budget = |tokens: u64| Control {
        kind: "enabled",
        budget_tokens: Some(tokens),
        effort: None,
    };
    Some(match (RequestedReasoning::of(request)?, known) {
        (RequestedReasoning::Off, _) if abilities.can_stop_reasoning() => Control {
            kind: "disabled",
            budget_tokens: None,
            // Without reasoning, the format refuses efforts above `high`.
            effort: sent
                .filter(|_| known != ReasoningControl::Budget)
                .map(|effort| name(abilities, effort.min(Effort::High))),
        },
        (RequestedReasoning::Off, _) => by_effort(Some(abilities.min_effort())),
        (RequestedReasoning::Budget(tokens), ReasoningControl::Budget) => by_budget(tokens),
        (RequestedReasoning::Budget(tokens), ReasoningControl::Both) => Control {
            effort: sent.map(|effort| name(abilities, effort)),
            ..by_budget(tokens)
        },
        (RequestedReasoning::Budget(tokens), ReasoningControl::Effort) => {
            by_effort(sent.or(Some(Effort::of_budget(tokens))))
        }
        (RequestedReasoning::Effort(effort), ReasoningControl::Budget) => by_budget(budget(effort, cap)?),
        (RequestedReasoning::Adaptive, ReasoningControl::Budget) => by_budget(budget(Effort::Medium, cap)?),
        (RequestedReasoning::Effort(effort), _) => by_effort(Some(effort)),
        (RequestedReasoning::Adaptive, _) => by_effort(None),
    })
}

/// Refuses an effort that becomes a budget for this model and cannot be combined with other
/// parameters of the request. Returns whether the request disables reasoning on a model that always
/// reasons.
pub(crate) fn check_compatible(request: &GenerateRequest, abilities: &Abilities) -> Result<bool, Error> {
    let Some(requested) = RequestedReasoning::of(request) else {
        return Ok(false);
    };
    if requested == RequestedReasoning::Off {
        return Ok(!abilities.can_stop_reasoning());
    }
    let becomes_budget = abilities.reasoning_control == Some(ReasoningControl::Budget)
        && matches!(
            requested,
            RequestedReasoning::Effort(_) | RequestedReasoning::Adaptive
        );
    if !becomes_budget {
        return Ok(false);
    }
    let sampling = &request.sampling;
    let forces_tool = !request.tools.is_empty()
        && matches!(
            request.tool_choice,
            ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::Allowed { required: true, .. }
        );
    let conflicts = [
        (
            request.max_tokens.is_some_and(|cap| cap <= MIN_BUDGET),
            "requires 'max_tokens' above 1,024 for this model",
        ),
        (
            forces_tool,
            "cannot be combined with a forced tool for this model",
        ),
        (
            sampling.temperature.is_some_and(|temperature| temperature != 1.0)
                || sampling.top_p.is_some_and(|top_p| top_p < 0.95)
                || sampling.top_k.is_some(),
            "cannot be combined with sampling parameters for this model",
        ),
    ];
    match conflicts.into_iter().find(|(conflicts, _)| *conflicts) {
        Some((_, problem)) => Err(unsupported("reasoning_effort", problem)),
        None => Ok(false),
    }
}

/// Returns the nearest effort that the model supports, but at least `low`, the lowest effort of the
/// format.
fn name(abilities: &Abilities, effort: Effort) -> &'static str {
    abilities.nearest_effort(effort).max(Effort::Low).as_str()
}

/// Returns the budget in tokens for an effort, as for Gemini (docs/formats.md): at most half of
/// `cap`, so that tokens for the response remain, and at least [`MIN_BUDGET`]. `None` if `cap` is
/// too low.
fn budget(effort: Effort, cap: u64) -> Option<u64> {
    let tokens = match effort {
        Effort::None | Effort::Minimal | Effort::Low => MIN_BUDGET,
        Effort::Medium => 8_192,
        Effort::High | Effort::Xhigh | Effort::Max => 24_576,
    };
    (cap > MIN_BUDGET).then(|| tokens.min((cap / 2).max(MIN_BUDGET)))
}
