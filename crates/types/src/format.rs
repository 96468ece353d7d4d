//! Names of the payload formats of clients and providers. The formats crate implements them.

use serde::{Deserialize, Serialize};

/// A payload format, named by its endpoint.
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
    /// Whether the format can represent the signature or encrypted data that a provider attaches to
    /// its reasoning.
    pub const fn supports_seals(self) -> bool {
        matches!(
            self,
            Format::Messages | Format::Responses | Format::GenerateContent
        )
    }

    /// Returns the name of the parameter that contains the model's input.
    pub const fn input(self) -> &'static str {
        match self {
            Format::ChatCompletions | Format::Messages => "messages",
            Format::Completions => "prompt",
            Format::Responses => "input",
            Format::GenerateContent => "contents",
        }
    }
}
