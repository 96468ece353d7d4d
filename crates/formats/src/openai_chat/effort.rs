//! How much to reason, in the words of this format.

use tollgate_types::generate::{GenerateRequest, Thinking};

/// Budgets of other formats below these are `low` and `medium`; docs/formats.md has the table.
const LOW: u64 = 4_096;
const MEDIUM: u64 = 16_384;

/// The value of `reasoning_effort`. What the caller says of the effort itself counts more than a budget.
pub(crate) fn of(request: &GenerateRequest) -> Option<String> {
    match (request.thinking, &request.reasoning_effort) {
        (Some(Thinking::Off), _) => Some("none".to_owned()),
        (_, Some(effort)) => Some(effort.clone()),
        (Some(Thinking::Budget(tokens)), None) => Some(of_budget(tokens).to_owned()),
        _ => None,
    }
}

fn of_budget(tokens: u64) -> &'static str {
    match tokens {
        ..LOW => "low",
        LOW..MEDIUM => "medium",
        _ => "high",
    }
}
