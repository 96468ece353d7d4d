//! Conversion between text wire formats and the common form. All functions are pure: no IO, no
//! async, no clock.
//!
//! Suggested reading order: [`error`], [`openai_chat`], [`openai_completions`],
//! [`anthropic_messages`], [`openai_responses`], [`openai_realtime`], [`gemini`],
//! [`bedrock_converse`], [`to_common`], [`image`], [`counting`], [`decisions`], [`embeddings`],
//! [`lossless`], [`sse`], [`json`]. [`vllm_realtime`] is the protocol of one server.
//!
//! Most formats are folders with the same modules: `wire` (types), `validate` (checks a body in one
//! pass without copying it), `decode` and `encode` (to and from the common form), `stream`
//! (streamed responses), `lossless` (byte-level rewriting). The formats share no trait: the calling
//! code selects the module of a format.

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
pub mod openai_realtime;
pub mod openai_responses;
pub mod reasoning_envelope;
pub mod request;
pub mod sse;
pub mod to_common;
pub mod vllm_realtime;

pub use error::DecodeError;
pub use request::{Media, ResponseFormatKind};
