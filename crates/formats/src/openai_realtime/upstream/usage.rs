//! Usage of a response, in disjoint units.

use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Unit, Usage};

use crate::json::Node;

/// Converts `usage`; `None` if a total is missing or implausible. The totals are authoritative: a
/// detail that exceeds its total is reduced. Tokens without a modality are text, and reasoning
/// tokens are output.
pub(super) fn read_usage(usage: &Node<'_>) -> Option<Usage> {
    let (input, output) = (count(usage, "input_tokens")?, count(usage, "output_tokens")?);
    let details = usage.get("input_token_details");
    let detail = |key: &str| details.and_then(|details| count(details, key)).unwrap_or(0);
    let audio = detail("audio_tokens").min(input);
    let image = detail("image_tokens").min(input - audio);
    let text = input - audio - image;

    let cached = details.and_then(|details| details.get("cached_tokens_details"));
    let (cached_text, cached_audio, cached_image) = match cached {
        Some(cached) => {
            let cached = |key: &str, max: u64| count(cached, key).unwrap_or(0).min(max);
            (
                cached("text_tokens", text),
                cached("audio_tokens", audio),
                cached("image_tokens", image),
            )
        }
        None => {
            let total = detail("cached_tokens").min(input);
            let cached_text = total.min(text);
            let cached_audio = (total - cached_text).min(audio);
            (cached_text, cached_audio, total - cached_text - cached_audio)
        }
    };
    let spoken = usage
        .get("output_token_details")
        .and_then(|details| count(details, "audio_tokens"))
        .unwrap_or(0)
        .min(output);
    Some(
        Usage::tokens(text - cached_text, output - spoken)
            .with(Unit::InputAudio, audio - cached_audio)
            .with(Unit::InputImage, image - cached_image)
            .with(Unit::CacheRead, cached_text + cached_image)
            .with(Unit::CacheReadAudio, cached_audio)
            .with(Unit::OutputAudio, spoken),
    )
}

fn count(node: &Node<'_>, key: &str) -> Option<u64> {
    match node.get(key)? {
        Node::Number(token) => token.parse().ok().filter(|count| *count <= MAX_QUANTITY),
        _ => None,
    }
}
