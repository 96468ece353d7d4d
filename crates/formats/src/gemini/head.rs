//! What the gateway knows of a request after one look at its bytes.

use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An answer.
    Generate,
    /// The number of its tokens. The request may stand in `generateContentRequest`.
    Count,
}

/// Fields that no answer depends on and no upstream gets: the model stands in the path, labels are of one cloud's bills.
pub(super) const NOT_FORWARDED: &[&str] = &["model", "labels"];

/// A validated request, without its content. Places in the body are kept for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug, Default)]
pub struct GenerateHead {
    /// The caller's cap on output tokens.
    pub max_tokens: Option<u64>,
    /// How many answers are asked for.
    pub candidates: u32,
    /// How many turns, at least 1.
    pub contents: u32,
    /// How many functions.
    pub tools: u32,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    /// What of the conversation is not text.
    pub media: Media,
    /// Whether anything is said about how to reason.
    pub says_how_to_reason: bool,
    /// Whether the answer shows what was reasoned.
    pub include_thoughts: bool,
    /// What other formats have no place for and no answer depends on.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl GenerateHead {
    /// Hints that were sent and that no upstream gets.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| *name == "labels")
    }

    /// Hints that were sent and that an upstream of another format does not get.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }

    pub(super) fn own_hint(&mut self, name: &'static str) {
        if !self.own_hints.contains(&name) {
            self.own_hints.push(name);
        }
    }
}

/// Where things stand in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Every top-level field in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Turns that have sealed reasoning in them, in the order of the body.
    pub(super) parts: Vec<PartsPlace>,
    /// Just after the opening brace of `generationConfig`, and whether it is empty.
    pub(super) config: Option<(u32, bool)>,
    /// The cap, or the null that was sent for it.
    pub(super) cap: Option<Span>,
}

impl Layout {
    pub(super) fn field(&self, name: &str) -> Option<&FieldPlace> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Where one top-level field stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldPlace {
    pub(super) name: &'static str,
    /// The value.
    pub(super) value: Span,
}

/// The parts of a turn.
#[derive(Clone, Debug)]
pub(super) struct PartsPlace {
    /// The array, brackets and all.
    pub(super) span: Span,
    pub(super) parts: Vec<PartPlace>,
}

/// One part of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartPlace {
    pub(super) span: Span,
    /// Whether it is a piece of reasoning.
    pub(super) is_thought: bool,
    /// Whether it is a call of a tool.
    pub(super) is_call: bool,
    pub(super) seal: Option<SealPlace>,
}

/// A `thoughtSignature`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealPlace {
    /// From its key to its value.
    pub(super) field: Span,
    /// The string, quotes and all.
    pub(super) value: Span,
}
