//! Conversion of usage objects to disjoint token classes, and back.
//!
//! In this format `promptTokenCount` includes cached tokens. It excludes the tokens that tools add
//! to the prompt, and `candidatesTokenCount` excludes thoughts.

use serde_json::{Map, Value, json};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

/// Reads a usage object. The format omits counts of zero. Returns `None` without a prompt count, or
/// if a count other than those by modality is implausible.
pub fn read_usage(report: &Value) -> Option<Usage> {
    read_counts(report, "candidatesTokenCount")
}

/// Reads a usage object in which the count of the answer has this name.
pub(super) fn read_counts(report: &Value, output: &str) -> Option<Usage> {
    let count = |name: &str| match report.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_u64().filter(|quantity| *quantity <= MAX_QUANTITY),
    };
    report.get("promptTokenCount").and_then(Value::as_u64)?;
    let prompt = count("promptTokenCount")?;
    let cached = count("cachedContentTokenCount")?.min(prompt);
    let uncached = prompt - cached + count("toolUsePromptTokenCount")?;
    let audio = audio_of(report, "promptTokensDetails")
        .saturating_sub(audio_of(report, "cacheTokensDetails"))
        .min(uncached);
    Some(
        Usage::ZERO
            .with(Unit::Input, uncached - audio)
            .with(Unit::InputAudio, audio)
            .with(Unit::CacheRead, cached)
            .with(Unit::Output, count(output)?)
            .with(Unit::Reasoning, count("thoughtsTokenCount")?),
    )
}

/// Returns the number of audio tokens in the list `details`, which has counts by modality.
pub(super) fn audio_of(report: &Value, details: &str) -> u64 {
    let list = report.get(details).and_then(Value::as_array);
    let is_audio = |entry: &&Value| entry.get("modality").and_then(Value::as_str) == Some("AUDIO");
    let count = |entry: &Value| entry.get("tokenCount").and_then(Value::as_u64);
    list.into_iter()
        .flatten()
        .filter(is_audio)
        .filter_map(count)
        .fold(0, u64::saturating_add)
}

/// Returns the usage object. `cost` becomes a decimal string of credits; `None` omits the field.
pub fn encode_usage(usage: &Usage, cost: Option<Credits>) -> Value {
    let mut object = json!({
        "promptTokenCount": usage.total_input(),
        "candidatesTokenCount": usage.total_output().saturating_sub(usage.get(Unit::Reasoning)),
        "totalTokenCount": usage.total(),
    });
    for (tokens, name) in [
        (usage.cache_read(), "cachedContentTokenCount"),
        (usage.get(Unit::Reasoning), "thoughtsTokenCount"),
    ] {
        if tokens > 0 {
            object[name] = json!(tokens);
        }
    }
    let audio = usage.input_audio();
    if audio > 0 {
        let text = usage.total_input() - audio;
        object["promptTokensDetails"] = json!([
            {"modality": "TEXT", "tokenCount": text}, {"modality": "AUDIO", "tokenCount": audio},
        ]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_do_not_overlap() {
        let report = json!({
            "promptTokenCount": 100, "cachedContentTokenCount": 30, "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 11, "totalTokenCount": 123,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 40}],
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}],
        });
        let usage = read_usage(&report).unwrap();
        let classes: Vec<(Unit, u64)> = usage.iter().collect();
        assert_eq!(
            classes,
            [
                (Unit::Input, 45),
                (Unit::CacheRead, 30),
                (Unit::InputAudio, 30),
                (Unit::Output, 7),
                (Unit::Reasoning, 11)
            ]
        );
        assert_eq!(usage.total(), 123);
        assert_eq!(encode_usage(&usage, None)["totalTokenCount"], 123);
        assert_eq!(encode_usage(&usage, None)["candidatesTokenCount"], 7);
    }

    #[test]
    fn malformed_usage_is_ignored() {
        for report in [
            json!({}),
            json!(null),
            json!({"promptTokenCount": -1}),
            json!({"promptTokenCount": 2_000_000_000}),
            json!({"promptTokenCount": 1, "candidatesTokenCount": 1.5}),
            json!({"candidatesTokenCount": 9}),
        ] {
            assert_eq!(read_usage(&report), None, "{report}");
        }
        let zero_left_out = json!({"promptTokenCount": 3});
        assert_eq!(read_usage(&zero_left_out), Some(Usage::tokens(3, 0)));
        let too_much_cached = json!({"promptTokenCount": 3, "cachedContentTokenCount": 9});
        assert_eq!(read_usage(&too_much_cached).unwrap().total_input(), 3);
    }
}
