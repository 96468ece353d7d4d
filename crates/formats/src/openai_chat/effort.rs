//! Encoding of the reasoning effort.

use tollgate_types::Effort;
use tollgate_types::generate::{GenerateRequest, Thinking};

/// Returns the value of `reasoning_effort`. An explicit effort takes precedence over a budget.
pub(crate) fn of(request: &GenerateRequest) -> Option<String> {
    match (request.thinking, &request.reasoning_effort) {
        (Some(Thinking::Off), _) => Some("none".to_owned()),
        (_, Some(effort)) => Some(effort.clone()),
        (Some(Thinking::Budget(tokens)), None) => Some(Effort::of_budget(tokens).as_str().to_owned()),
        _ => None,
    }
}
