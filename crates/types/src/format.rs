//! Names of the payload shapes that clients and providers speak. The shapes themselves are in the formats crate.

use serde::{Deserialize, Serialize};

/// A payload shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `POST /v1/chat/completions`.
    ChatCompletions,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/models/{model}:generateContent`.
    GenerateContent,
}

impl Format {
    /// Whether it has a place for what a provider seals its reasoning with.
    pub const fn carries_seals(self) -> bool {
        matches!(
            self,
            Format::Messages | Format::Responses | Format::GenerateContent
        )
    }

    /// The parameter that carries what the model reads.
    pub const fn input(self) -> &'static str {
        match self {
            Format::ChatCompletions | Format::Messages => "messages",
            Format::Completions => "prompt",
            Format::Responses => "input",
            Format::GenerateContent => "contents",
        }
    }
}
