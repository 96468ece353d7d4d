//! What an upstream says it consumed, in classes that do not overlap. `inputTokens` has no cached tokens in it, and
//! tokens of reasoning are part of `outputTokens`, without a number of their own.

use serde_json::Value;
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Unit, Usage};

/// What a usage object says. A count that makes no sense is none; without input and output there is no report.
pub fn read_usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| {
        let quantity = usage.get(name).and_then(Value::as_u64);
        quantity.filter(|quantity| *quantity <= MAX_QUANTITY)
    };
    let written = count("cacheWriteInputTokens").unwrap_or(0);
    let details = usage.get("cacheDetails").and_then(Value::as_array);
    let for_an_hour = details
        .into_iter()
        .flatten()
        .filter(|detail| detail["ttl"] == "1h");
    let for_an_hour = for_an_hour.filter_map(|detail| detail["inputTokens"].as_u64());
    let for_an_hour = for_an_hour.fold(0, u64::saturating_add).min(written);
    Some(
        Usage::tokens(count("inputTokens")?, count("outputTokens")?)
            .with(Unit::CacheRead, count("cacheReadInputTokens").unwrap_or(0))
            .with(Unit::CacheWrite, written - for_an_hour)
            .with(Unit::CacheWriteHour, for_an_hour),
    )
}
