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
    Some(
        Usage::tokens(count("inputTokens")?, count("outputTokens")?)
            .with(Unit::CacheRead, count("cacheReadInputTokens").unwrap_or(0))
            .with(Unit::CacheWrite, count("cacheWriteInputTokens").unwrap_or(0)),
    )
}
