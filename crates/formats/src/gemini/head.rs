//! Properties of a request that the gateway extracts in one pass.

use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// Purpose of a request, from the action in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `:generateContent` or `:streamGenerateContent`: generates a response.
    Generate,
    /// `:countTokens`. The request may be in the member `generateContentRequest`.
    Count,
}

/// Fields that do not affect the response and that no upstream receives: the model is in the path,
/// and labels are for Google Cloud billing.
pub(super) const NOT_FORWARDED: &[&str] = &["model", "labels"];

/// A validated request without its content. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug, Default)]
pub struct GenerateHead {
    /// Maximum number of output tokens, as set by the caller.
    pub max_tokens: Option<u64>,
    /// Number of requested candidates.
    pub candidates: u32,
    /// Number of turns, at least 1.
    pub contents: u32,
    /// Number of functions.
    pub tools: u32,
    /// Required format of the response.
    pub response_format: ResponseFormatKind,
    /// Counts of the images, audio and documents in the conversation. Inline media of other types,
    /// such as video, count as documents.
    pub media: Media,
    /// Whether the request has reasoning parameters.
    pub has_reasoning_params: bool,
    /// Whether the response includes the thoughts.
    pub include_thoughts: bool,
    /// Sent fields that other formats cannot express and that do not affect the response.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl GenerateHead {
    /// Returns the names of the sent fields that no upstream receives.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| *name == "labels")
    }

    /// Returns the names of the sent fields that an upstream of another format does not receive.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }

    pub(super) fn own_hint(&mut self, name: &'static str) {
        if !self.own_hints.contains(&name) {
            self.own_hints.push(name);
        }
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// All top-level fields, in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Model turns that have a `thoughtSignature`, in the order of the body.
    pub(super) parts: Vec<PartsPlace>,
    /// Position just after the opening brace of `generationConfig`, and whether the object is
    /// empty.
    pub(super) config: Option<(u32, bool)>,
    /// Position of the value of `maxOutputTokens`, which may be null.
    pub(super) cap: Option<Span>,
}

impl Layout {
    pub(super) fn field(&self, name: &str) -> Option<&FieldPlace> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Position of one top-level field.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldPlace {
    pub(super) name: &'static str,
    pub(super) value: Span,
}

/// Positions of the parts of a turn.
#[derive(Clone, Debug)]
pub(super) struct PartsPlace {
    /// Position of the array, brackets included.
    pub(super) span: Span,
    pub(super) parts: Vec<PartPlace>,
}

/// Position of one part of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartPlace {
    pub(super) span: Span,
    /// Whether the part is reasoning.
    pub(super) is_thought: bool,
    /// Whether the part is a tool call.
    pub(super) is_call: bool,
    pub(super) seal: Option<SealPlace>,
}

/// Position of a `thoughtSignature`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealPlace {
    /// Position of the field, from the key to the end of the value.
    pub(super) field: Span,
    /// Position of the string, quotes included.
    pub(super) value: Span,
}
