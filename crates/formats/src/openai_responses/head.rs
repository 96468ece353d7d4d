//! What the gateway knows of a request for a response after one look at its bytes.

use std::borrow::Cow;

use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// Hints of other families, and of clients for themselves, that are accepted, never forwarded, and reported as ignored.
pub(super) const IGNORED_HINTS: &[&str] = &[
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
];

/// A validated request, without its content. Places in the body are kept for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct ResponsesHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the caller wants the answer to be kept.
    pub store: bool,
    /// Whether the caller asks for it later instead of waiting.
    pub background: bool,
    /// The answer that this one goes on from.
    pub previous_response_id: Option<Cow<'a, str>>,
    /// The caller's cap on output tokens.
    pub max_tokens: Option<u64>,
    /// How many items of input.
    pub items: u32,
    /// How many tools.
    pub tools: u32,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    /// What of the conversation is not text.
    pub media: Media,
    /// Whether anything is said about reasoning.
    pub says_how_to_reason: bool,
    /// Whether a summary of the reasoning is asked for.
    pub shows_reasoning: bool,
    /// What other formats have no place for and no answer depends on.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl ResponsesHead<'_> {
    /// The same without a borrow of the body, so that it can be kept beside it.
    pub fn into_owned(self) -> ResponsesHead<'static> {
        ResponsesHead {
            model: Cow::Owned(self.model.into_owned()),
            stream: self.stream,
            store: self.store,
            background: self.background,
            previous_response_id: self.previous_response_id.map(|id| Cow::Owned(id.into_owned())),
            max_tokens: self.max_tokens,
            items: self.items,
            tools: self.tools,
            response_format: self.response_format,
            media: self.media,
            says_how_to_reason: self.says_how_to_reason,
            shows_reasoning: self.shows_reasoning,
            own_hints: self.own_hints,
            layout: self.layout,
        }
    }

    /// Hints that were sent and that no upstream gets.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| IGNORED_HINTS.contains(name))
    }

    /// Hints that were sent and that an upstream of another format does not get.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }
}

/// Where things stand in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Every top-level field in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// The items of the input, when reasoning is among them.
    pub(super) items: Vec<ItemPlace>,
    /// Whether `include` asks for sealed reasoning.
    pub(super) includes_seal: bool,
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

/// One item of the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemPlace {
    pub(super) span: Span,
    pub(super) is_reasoning: bool,
    /// The seal of reasoning, quotes and all.
    pub(super) seal: Option<Span>,
}
