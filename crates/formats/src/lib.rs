//! Text wire formats to and from the common request. Pure functions: no IO, no async, no clock.
//!
//! Suggested reading order: [`error`], [`openai_chat`], [`openai_completions`], [`anthropic_messages`],
//! [`openai_responses`], [`gemini`], [`bedrock_converse`], [`hub`], [`counting`], [`decisions`], [`embeddings`], [`lossless`], [`sse`],
//! [`json`].
//!
//! Each format is a folder with the same rooms: `wire` (its types), `validate` (its rules, in one borrowed pass),
//! `decode` and `encode` (to and from the common form), `stream`, `lossless` (bytes in, nearly the same bytes out).
//! There is no trait over formats: who picks one knows which.

pub mod anthropic_messages;
pub mod bedrock_converse;
pub mod counting;
pub mod decisions;
pub mod embeddings;
pub mod error;
pub mod gemini;
pub mod hub;
pub mod json;
pub mod lossless;
pub mod openai_chat;
pub mod openai_completions;
pub mod openai_responses;
pub mod request;
pub mod seal;
pub mod sse;

pub use error::DecodeError;
pub use request::{Media, ResponseFormatKind};
