//! Google's dialect (`_gaos/types/decisions`): System One with the usage object of interactions.
//! Google's clients preserve unknown types of answers, so refusals and failures are written as in
//! Tollgate's own dialect.

use serde_json::{Map, Value, json};
use tollgate_types::decide::{Decision, Question};

use super::{ResponseFrame, native};

pub(super) fn answer(question: &Question, decision: &Decision) -> Map<String, Value> {
    let mut members = native::answer(question, decision);
    members.shift_remove("probability");
    members
}

pub(super) fn usage(frame: &ResponseFrame<'_>) -> Value {
    let total = frame.usage.total();
    json!({
        "total_input_tokens": total,
        "total_cached_tokens": 0,
        "total_output_tokens": 0,
        "total_thought_tokens": 0,
        "total_tool_use_tokens": 0,
        "total_tokens": total,
        "cost": frame.cost.to_string(),
    })
}
