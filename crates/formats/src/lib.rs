//! Conversion between text wire formats and the common request. Pure functions: no IO, no async, no
//! clock.
//!
//! Suggested reading order: [`error`], [`openai_chat`], [`openai_completions`],
//! [`anthropic_messages`], [`openai_responses`], [`gemini`], [`bedrock_converse`], [`to_common`],
//! [`image`], [`counting`], [`decisions`], [`embeddings`], [`lossless`], [`sse`], [`json`].
//!
//! Each format is a folder with the same modules: `wire` (its types), `validate` (its rules, in one
//! borrowed pass), `decode` and `encode` (to and from the common form), `stream`, `lossless`
//! (byte-level rewriting). There is no trait over formats: callers always know which format they
//! use.

pub mod anthropic_messages;
pub mod bedrock_converse;
pub mod counting;
pub mod decisions;
pub mod embeddings;
pub mod error;
pub mod gemini;
pub mod image;
pub mod json;
pub mod lossless;
pub mod openai_chat;
pub mod openai_completions;
pub mod openai_responses;
pub mod reasoning_envelope;
pub mod request;
pub mod sse;
pub mod to_common;

pub use error::DecodeError;
pub use request::{Media, ResponseFormatKind};
