//! Conversion of usage objects to disjoint token classes, and back.
//!
//! In this format `input_tokens` excludes cached tokens, and `output_tokens` includes reasoning
//! tokens.

use serde_json::{Map, Value, json};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

/// Reads the usage object `now` and completes it from `before`, the earlier one: a stream reports
/// usage twice, and the second report may omit unchanged counts. Returns `None` without a plausible
/// output count in `now` or without a plausible input count. Other implausible counts are read as
/// zero.
pub fn read_usage(before: Option<&Value>, now: &Value) -> Option<Usage> {
    let count = |name: &str| {
        let value = now.get(name).filter(|value| !value.is_null());
        value.or_else(|| before?.get(name)).and_then(quantity)
    };
    let thinking = now.pointer("/output_tokens_details/thinking_tokens");
    let output = now.get("output_tokens").and_then(quantity)?;
    let reasoning = thinking.and_then(quantity).unwrap_or(0).min(output);
    let written = count("cache_creation_input_tokens").unwrap_or(0);
    let for_an_hour = |usage: &Value| {
        usage
            .pointer("/cache_creation/ephemeral_1h_input_tokens")
            .and_then(quantity)
    };
    let for_an_hour = for_an_hour(now).or_else(|| before.and_then(for_an_hour));
    let for_an_hour = for_an_hour.unwrap_or(0).min(written);
    Some(
        Usage::ZERO
            .with(Unit::Input, count("input_tokens")?)
            .with(Unit::CacheRead, count("cache_read_input_tokens").unwrap_or(0))
            .with(Unit::CacheWrite, written - for_an_hour)
            .with(Unit::CacheWriteHour, for_an_hour)
            .with(Unit::Output, output - reasoning)
            .with(Unit::Reasoning, reasoning),
    )
}

fn quantity(value: &Value) -> Option<u64> {
    value.as_u64().filter(|quantity| *quantity <= MAX_QUANTITY)
}

/// Returns the usage object. `cost` becomes a decimal string of credits; `None` omits the field.
pub fn encode_usage(usage: &Usage, cost: Option<Credits>) -> Value {
    let mut object = json!({
        "input_tokens": usage.get(Unit::Input) + usage.get(Unit::InputAudio) + usage.get(Unit::InputImage),
        "cache_creation_input_tokens": usage.cache_written(),
        "cache_read_input_tokens": usage.cache_read(),
        "output_tokens": usage.total_output(),
    });
    if usage.get(Unit::CacheWriteHour) > 0 {
        object["cache_creation"] = json!({
            "ephemeral_5m_input_tokens": usage.get(Unit::CacheWrite),
            "ephemeral_1h_input_tokens": usage.get(Unit::CacheWriteHour),
        });
    }
    if usage.get(Unit::Reasoning) > 0 {
        object["output_tokens_details"] = json!({"thinking_tokens": usage.get(Unit::Reasoning)});
    }
    if let Some(object) = object.as_object_mut() {
        with_cost(object, cost);
    }
    object
}

pub(super) fn with_cost(usage: &mut Map<String, Value>, cost: Option<Credits>) {
    if let Some(cost) = cost {
        usage.insert("cost".to_owned(), Value::String(cost.to_string()));
    }
}
