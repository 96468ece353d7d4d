//! Encoding of the reasoning effort.

use tollgate_types::Effort;
use tollgate_types::generate::{GenerateRequest, Thinking};

/// Returns the value of `reasoning_effort`: `none` if thinking is off, otherwise the requested
/// effort, otherwise the effort that corresponds to the thinking budget.
pub(crate) fn of(request: &GenerateRequest) -> Option<String> {
    match (request.thinking, &request.reasoning_effort) {
        (Some(Thinking::Off), _) => Some("none".to_owned()),
        (_, Some(effort)) => Some(effort.clone()),
        (Some(Thinking::Budget(tokens)), None) => Some(Effort::of_budget(tokens).as_str().to_owned()),
        _ => None,
    }
}
