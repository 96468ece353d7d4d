//! Automatic detection of turns.

use std::ops::RangeInclusive;

use super::super::Dialect;
use super::super::fields::number_at;
use super::super::writer::Object;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Rule of the server that detects when the speaker starts and stops. Absence means that the
/// client commits the audio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TurnDetection {
    /// By voice activity, with fixed thresholds.
    Server {
        /// Activation threshold from 0 to 1.
        threshold: f64,
        /// Audio before the start of speech that belongs to the turn: 0 to 5,000.
        prefix_padding_ms: u32,
        /// Silence that ends a turn: 100 to 10,000.
        silence_duration_ms: u32,
        /// Silence after a response that starts another response: 5,000 to 60,000.
        idle_timeout_ms: Option<u32>,
        /// Whether the end of a turn starts a response.
        create_response: bool,
        /// Whether speech cancels the running response.
        interrupt_response: bool,
    },
    /// By the meaning of the words.
    Semantic {
        eagerness: Eagerness,
        /// Whether the end of a turn starts a response.
        create_response: bool,
        /// Whether speech cancels the running response.
        interrupt_response: bool,
    },
}

/// Willingness of semantic detection to end a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eagerness {
    /// Waits up to 8 s.
    Low,
    /// Waits up to 4 s.
    Medium,
    /// Waits up to 2 s.
    High,
    /// Equals [`Medium`](Self::Medium).
    #[default]
    Auto,
}

/// `server_vad` with the defaults of the protocol.
pub const DEFAULT_SERVER_VAD: TurnDetection = TurnDetection::Server {
    threshold: 0.5,
    prefix_padding_ms: 300,
    silence_duration_ms: 500,
    idle_timeout_ms: None,
    create_response: true,
    interrupt_response: true,
};

impl TurnDetection {
    /// Whether the end of a turn starts a response.
    pub const fn create_response(self) -> bool {
        match self {
            TurnDetection::Server { create_response, .. }
            | TurnDetection::Semantic { create_response, .. } => create_response,
        }
    }

    /// Whether speech cancels the running response.
    pub const fn interrupt_response(self) -> bool {
        match self {
            TurnDetection::Server {
                interrupt_response, ..
            }
            | TurnDetection::Semantic {
                interrupt_response, ..
            } => interrupt_response,
        }
    }
}

const SERVER_KEYS: &[&str] = &[
    "threshold",
    "prefix_padding_ms",
    "silence_duration_ms",
    "idle_timeout_ms",
];
const SEMANTIC_KEYS: &[&str] = &["eagerness"];
const SHARED_KEYS: &[&str] = &["type", "create_response", "interrupt_response"];
const NAMES: &[&str] = &["server_vad", "semantic_vad", "none"];

impl TurnDetection {
    /// Reads the name or the object of a rule. Null and `"none"` are off. Absent members have the
    /// defaults of the protocol.
    pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Self>, BoxedError> {
        if *node == Node::Null {
            return Ok(None);
        }
        if node.as_text().is_some() {
            return Ok(match node.word_at(NAMES, path)? {
                "server_vad" => Some(DEFAULT_SERVER_VAD),
                "semantic_vad" => Some(TurnDetection::Semantic {
                    eagerness: Eagerness::Auto,
                    create_response: true,
                    interrupt_response: true,
                }),
                _ => None,
            });
        }
        node.object_at(path)?;
        let kind = match node.get("type") {
            Some(kind) => kind.word_at(NAMES, &path.key("type"))?,
            None => "server_vad",
        };
        match kind {
            "server_vad" => Self::read_server(node, path).map(Some),
            "semantic_vad" => Self::read_semantic(node, path).map(Some),
            _ => node.check_keys(&[SHARED_KEYS], path).map(|()| None),
        }
    }

    fn read_server(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.check_keys(&[SHARED_KEYS, SERVER_KEYS], path)?;
        let threshold = match node.get("threshold") {
            Some(value) => number_at(value, 0.0, 1.0, &path.key("threshold"))?,
            None => 0.5,
        };
        Ok(TurnDetection::Server {
            threshold,
            prefix_padding_ms: millis(node, "prefix_padding_ms", 0..=5_000, path)?.unwrap_or(300),
            silence_duration_ms: millis(node, "silence_duration_ms", 100..=10_000, path)?.unwrap_or(500),
            idle_timeout_ms: millis(node, "idle_timeout_ms", 5_000..=60_000, path)?,
            create_response: flag(node, "create_response", path)?,
            interrupt_response: flag(node, "interrupt_response", path)?,
        })
    }

    fn read_semantic(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.check_keys(&[SHARED_KEYS, SEMANTIC_KEYS], path)?;
        let eagerness = match node.get("eagerness") {
            Some(value) => Eagerness::read(value, &path.key("eagerness"))?,
            None => Eagerness::Auto,
        };
        Ok(TurnDetection::Semantic {
            eagerness,
            create_response: flag(node, "create_response", path)?,
            interrupt_response: flag(node, "interrupt_response", path)?,
        })
    }

    /// Writes the members of the object, which both dialects have in common. Only GA has a null
    /// `idle_timeout_ms`.
    pub(super) fn write(self, dialect: Dialect, object: &mut Object<'_>) {
        match self {
            TurnDetection::Server {
                threshold,
                prefix_padding_ms,
                silence_duration_ms,
                idle_timeout_ms,
                ..
            } => {
                object.text("type", "server_vad");
                object.number("threshold", threshold);
                object.number("prefix_padding_ms", prefix_padding_ms);
                object.number("silence_duration_ms", silence_duration_ms);
                match idle_timeout_ms {
                    Some(timeout_ms) => object.number("idle_timeout_ms", timeout_ms),
                    None if dialect == Dialect::Ga => object.raw("idle_timeout_ms", "null"),
                    None => {}
                }
            }
            TurnDetection::Semantic { eagerness, .. } => {
                object.text("type", "semantic_vad");
                object.text("eagerness", eagerness.as_str());
            }
        }
        object.flag("create_response", self.create_response());
        object.flag("interrupt_response", self.interrupt_response());
    }
}

impl Eagerness {
    /// Returns the name of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Eagerness::Low => "low",
            Eagerness::Medium => "medium",
            Eagerness::High => "high",
            Eagerness::Auto => "auto",
        }
    }

    fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        Ok(match node.word_at(&["low", "medium", "high", "auto"], path)? {
            "low" => Eagerness::Low,
            "medium" => Eagerness::Medium,
            "high" => Eagerness::High,
            _ => Eagerness::Auto,
        })
    }
}

fn millis(
    node: &Node<'_>,
    key: &str,
    bounds: RangeInclusive<u64>,
    path: &Path<'_>,
) -> Result<Option<u32>, BoxedError> {
    let Some(value) = node.get(key) else {
        return Ok(None);
    };
    let millis = value.integer_at(bounds, &path.key(key))?;
    Ok(u32::try_from(millis).ok())
}

/// Reads a boolean that is true if it is absent.
fn flag(node: &Node<'_>, key: &str, path: &Path<'_>) -> Result<bool, BoxedError> {
    match node.get(key) {
        Some(value) => value.flag_at(&path.key(key)),
        None => Ok(true),
    }
}
