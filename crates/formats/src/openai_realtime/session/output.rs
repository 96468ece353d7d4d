//! Settings of the responses.

use std::sync::Arc;

use super::super::Dialect;
use super::super::fields::{name_at, number_at, text_at};
use super::super::writer::Object;
use super::{MAX_INSTRUCTIONS_BYTES, MAX_OUTPUT_TOKENS};
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Kind of the output of a response. A response has exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputModality {
    /// Speech with its transcript.
    #[default]
    Audio,
    Text,
}

/// Rule for a conversation that exceeds the context window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Truncation {
    /// The oldest messages are dropped.
    #[default]
    Auto,
    /// The response fails.
    Disabled,
    /// Messages are dropped until a fraction of the context is used.
    RetentionRatio {
        /// Fraction of the tokens that remain, from 0 to 1.
        ratio: f64,
        /// Maximum tokens of the conversation after the instructions.
        post_instructions: Option<u32>,
    },
}

/// Effort that a reasoning model spends before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl OutputModality {
    /// Writes `output_modalities`, or `modalities` of the beta dialect.
    pub(in super::super) fn write(self, dialect: Dialect, object: &mut Object<'_>) {
        let values: &[&str] = match (self, dialect) {
            (OutputModality::Text, _) => &["text"],
            (OutputModality::Audio, Dialect::Ga) => &["audio"],
            (OutputModality::Audio, Dialect::Beta) => &["text", "audio"],
        };
        let key = match dialect {
            Dialect::Ga => "output_modalities",
            Dialect::Beta => "modalities",
        };
        object.texts(key, values.iter().copied());
    }
}

/// Reads a list of modalities. Only the beta dialect lists text and audio together, which means
/// speech with its transcript.
pub(in super::super) fn read_modality(
    node: &Node<'_>,
    dialect: Dialect,
    path: &Path<'_>,
) -> Result<OutputModality, BoxedError> {
    let items = node.list_at(path)?;
    let texts: Option<Vec<&str>> = items.iter().map(Node::as_text).collect();
    match (texts.as_deref(), dialect) {
        (Some(["audio"]), _) => Ok(OutputModality::Audio),
        (Some(["text"]), _) => Ok(OutputModality::Text),
        (Some(["text", "audio"] | ["audio", "text"]), Dialect::Beta) => Ok(OutputModality::Audio),
        (_, Dialect::Beta) => Err(path.invalid("must be [\"text\", \"audio\"] or [\"text\"]")),
        (_, Dialect::Ga) => Err(path.invalid("must be [\"audio\"] or [\"text\"]")),
    }
}

/// Reads instructions of up to [`MAX_INSTRUCTIONS_BYTES`].
pub(in super::super) fn read_instructions(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    const LIMIT_KIB: usize = MAX_INSTRUCTIONS_BYTES >> 10;
    let text = text_at(node, path)?;
    if text.len() > MAX_INSTRUCTIONS_BYTES {
        return Err(path.invalid(format_args!("must have at most {LIMIT_KIB} KiB")));
    }
    Ok(text)
}

/// Reads the name of a voice, or an object with its id.
pub(in super::super) fn read_voice(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    const MAX_VOICE_CHARS: usize = 256;
    if let Node::Object(_) = node {
        node.check_keys(&[&["id"]], path)?;
        return name_at(node.need("id", path)?, MAX_VOICE_CHARS, &path.key("id"));
    }
    name_at(node, MAX_VOICE_CHARS, path)
}

/// Reads a number of tokens; `"inf"` is `None`.
pub(in super::super) fn read_max_output_tokens(
    node: &Node<'_>,
    path: &Path<'_>,
) -> Result<Option<u32>, BoxedError> {
    if node.as_text() == Some("inf") {
        return Ok(None);
    }
    let tokens = node.integer_at(1..=u64::from(MAX_OUTPUT_TOKENS), path);
    let refused = |_| {
        path.invalid(format_args!(
            "must be an integer from 1 to {MAX_OUTPUT_TOKENS}, or 'inf'"
        ))
    };
    tokens.map(|tokens| u32::try_from(tokens).ok()).map_err(refused)
}

/// Writes a number of tokens, or `"inf"`.
pub(in super::super) fn write_max_output_tokens(object: &mut Object<'_>, key: &str, tokens: Option<u32>) {
    match tokens {
        Some(tokens) => object.number(key, tokens),
        None => object.text(key, "inf"),
    }
}

/// Reads a sampling temperature of the beta dialect.
pub(in super::super) fn read_temperature(node: &Node<'_>, path: &Path<'_>) -> Result<f64, BoxedError> {
    number_at(node, 0.6, 1.2, path)
}

/// Reads a switch of models with reasoning.
pub(in super::super) fn read_parallel_tool_calls(
    node: &Node<'_>,
    path: &Path<'_>,
) -> Result<bool, BoxedError> {
    node.flag_at(path)
}

/// Reads the object `reasoning`; `None` if it has no `effort`.
pub(in super::super) fn read_reasoning(
    node: &Node<'_>,
    path: &Path<'_>,
) -> Result<Option<ReasoningEffort>, BoxedError> {
    node.check_keys(&[&["effort"]], path)?;
    let Some(effort) = node.get("effort") else {
        return Ok(None);
    };
    let names = ReasoningEffort::ALL.map(ReasoningEffort::as_str);
    let name = effort.word_at(&names, &path.key("effort"))?;
    Ok(ReasoningEffort::ALL
        .into_iter()
        .find(|effort| effort.as_str() == name))
}

impl ReasoningEffort {
    const ALL: [ReasoningEffort; 5] = [
        ReasoningEffort::Minimal,
        ReasoningEffort::Low,
        ReasoningEffort::Medium,
        ReasoningEffort::High,
        ReasoningEffort::Xhigh,
    ];

    /// Returns the name of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReasoningEffort::Minimal => "minimal",
            ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High => "high",
            ReasoningEffort::Xhigh => "xhigh",
        }
    }
}

impl Truncation {
    /// Reads a mode, or the object of a retention ratio.
    pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        if node.as_text().is_some() {
            return Ok(match node.word_at(&["auto", "disabled"], path)? {
                "auto" => Truncation::Auto,
                _ => Truncation::Disabled,
            });
        }
        node.check_keys(&[&["type", "retention_ratio", "token_limits"]], path)?;
        node.need("type", path)?
            .word_at(&["retention_ratio"], &path.key("type"))?;
        let ratio = node.need("retention_ratio", path)?;
        let limits = node.get("token_limits");
        Ok(Truncation::RetentionRatio {
            ratio: number_at(ratio, 0.0, 1.0, &path.key("retention_ratio"))?,
            post_instructions: limits
                .map(|limits| post_instructions(limits, &path.key("token_limits")))
                .transpose()?
                .flatten(),
        })
    }

    /// Writes the value of `truncation`.
    pub(super) fn write(self, object: &mut Object<'_>) {
        match self {
            Truncation::Auto => object.text("truncation", "auto"),
            Truncation::Disabled => object.text("truncation", "disabled"),
            Truncation::RetentionRatio {
                ratio,
                post_instructions,
            } => object.object("truncation", |value| {
                value.text("type", "retention_ratio");
                value.number("retention_ratio", ratio);
                if let Some(tokens) = post_instructions {
                    value.object("token_limits", |limits| {
                        limits.number("post_instructions", tokens)
                    });
                }
            }),
        }
    }
}

fn post_instructions(limits: &Node<'_>, path: &Path<'_>) -> Result<Option<u32>, BoxedError> {
    limits.check_keys(&[&["post_instructions"]], path)?;
    let Some(tokens) = limits.get("post_instructions") else {
        return Ok(None);
    };
    let tokens = tokens.integer_at(1..=u64::from(u32::MAX), &path.key("post_instructions"))?;
    Ok(u32::try_from(tokens).ok())
}
