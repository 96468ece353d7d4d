//! Usage reports, converted to disjoint token classes. `inputTokens` excludes cached tokens;
//! `outputTokens` includes reasoning tokens without a separate count.

use serde_json::Value;
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Unit, Usage};

/// Reads a usage object. Returns `None` unless the counts of input and output tokens are both
/// plausible. Implausible counts of cached tokens are read as zero.
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
