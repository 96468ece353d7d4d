//! Conversion of the usage of an answer to disjoint classes.
//!
//! As in generated content, `promptTokenCount` includes cached tokens and excludes the tokens that
//! tools add to the prompt, and `responseTokenCount` excludes thoughts.

use serde_json::Value;
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Unit, Usage};

use super::super::usage::audio_of;

/// Reads the usage of an answer. Returns `None` without a prompt count, or if a count other than
/// those by modality is implausible.
pub fn read_live_usage(report: &Value) -> Option<Usage> {
    let count = |name: &str| match report.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_u64().filter(|quantity| *quantity <= MAX_QUANTITY),
    };
    report.get("promptTokenCount").and_then(Value::as_u64)?;
    let prompt = count("promptTokenCount")?;
    let cached = count("cachedContentTokenCount")?.min(prompt);
    let uncached = prompt - cached + count("toolUsePromptTokenCount")?;
    let response = count("responseTokenCount")?;
    let cached_audio = audio_of(report, "cacheTokensDetails");
    let audio = audio_of(report, "promptTokensDetails")
        .saturating_sub(cached_audio)
        .saturating_add(audio_of(report, "toolUsePromptTokensDetails"))
        .min(uncached);
    let cached_audio = cached_audio.min(cached);
    let spoken = audio_of(report, "responseTokensDetails").min(response);
    Some(
        Usage::ZERO
            .with(Unit::Input, uncached - audio)
            .with(Unit::InputAudio, audio)
            .with(Unit::CacheRead, cached - cached_audio)
            .with(Unit::CacheReadAudio, cached_audio)
            .with(Unit::Output, response - spoken)
            .with(Unit::OutputAudio, spoken)
            .with(Unit::Reasoning, count("thoughtsTokenCount")?),
    )
}
