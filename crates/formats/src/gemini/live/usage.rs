//! Conversion of the usage of an answer to disjoint classes.
//!
//! As in generated content, `promptTokenCount` includes cached tokens and excludes the tokens that
//! tools add to the prompt, and `responseTokenCount` excludes thoughts.

use serde_json::Value;
use tollgate_types::{Unit, Usage};

use super::super::usage::{audio_of, read_counts};

/// Reads the usage of an answer. Returns `None` without a prompt count, or if a count other than
/// those by modality is implausible.
pub fn read_live_usage(report: &Value) -> Option<Usage> {
    let usage = read_counts(report, "responseTokenCount")?;
    let audio_in =
        |details: &str, unit: Unit| (audio_of(report, details).min(usage.get(unit)), usage.get(unit));
    let (tool_audio, input) = audio_in("toolUsePromptTokensDetails", Unit::Input);
    let (cached_audio, cached) = audio_in("cacheTokensDetails", Unit::CacheRead);
    let (spoken, output) = audio_in("responseTokensDetails", Unit::Output);
    Some(
        usage
            .with(Unit::Input, input - tool_audio)
            .with(Unit::InputAudio, usage.get(Unit::InputAudio) + tool_audio)
            .with(Unit::CacheRead, cached - cached_audio)
            .with(Unit::CacheReadAudio, cached_audio)
            .with(Unit::Output, output - spoken)
            .with(Unit::OutputAudio, spoken),
    )
}
