//! Conversion of usage objects to disjoint token classes, and back.
//!
//! In this format `input_tokens` includes cached and cache-written tokens, and `output_tokens`
//! includes reasoning tokens.

use serde_json::{Map, Value, json};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

/// Reads a usage object. Implausible counts are ignored; without both totals the result is `None`.
/// Parts that together exceed their total are reduced to the total.
pub fn read_usage(usage: &Value) -> Option<Usage> {
    let count = |pointer: &str| usage.pointer(pointer).and_then(quantity);
    let input = count("/input_tokens")?;
    let output = count("/output_tokens")?;
    let cached = count("/input_tokens_details/cached_tokens")
        .unwrap_or(0)
        .min(input);
    let written = count("/input_tokens_details/cache_write_tokens").unwrap_or(0);
    let written = written.min(input - cached);
    let reasoning = count("/output_tokens_details/reasoning_tokens")
        .unwrap_or(0)
        .min(output);
    Some(
        Usage::ZERO
            .with(Unit::Input, input - cached - written)
            .with(Unit::CacheRead, cached)
            .with(Unit::CacheWrite, written)
            .with(Unit::Output, output - reasoning)
            .with(Unit::Reasoning, reasoning),
    )
}

fn quantity(value: &Value) -> Option<u64> {
    value.as_u64().filter(|quantity| *quantity <= MAX_QUANTITY)
}

/// Writes the usage object; `cost` is written as a decimal string of credits, if known.
pub fn encode_usage(usage: &Usage, cost: Option<Credits>) -> Value {
    let (cached, written) = (usage.cache_read(), usage.cache_written());
    let input = usage.total_input();
    let output = usage.total_output();
    let mut object = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.get(Unit::Reasoning)},
        "total_tokens": input + output,
    });
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
