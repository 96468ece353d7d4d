//! The data that the gateway extracts from a responses request in one pass.

use std::borrow::Cow;

use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// Hints of other formats and hints that clients use themselves. They are accepted, never
/// forwarded, and reported as ignored.
pub(super) const IGNORED_HINTS: &[&str] = &[
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
];

/// A validated request without its content. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct ResponsesHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Value of `store`: whether the gateway should store the response. Default: true.
    pub store: bool,
    /// Whether the response runs in the background and the caller fetches it later.
    pub background: bool,
    /// Id of the response that this request continues.
    pub previous_response_id: Option<Cow<'a, str>>,
    /// The caller's cap on output tokens.
    pub max_tokens: Option<u64>,
    /// Number of input items.
    pub items: u32,
    /// Number of tools.
    pub tools: u32,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    /// Counts of the images, audio and documents in the input.
    pub media: Media,
    /// Whether the request has parameters about reasoning.
    pub has_reasoning_params: bool,
    /// Whether the caller requested a summary of the reasoning.
    pub shows_reasoning: bool,
    /// Fields that other formats cannot express and that do not affect the answer.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl ResponsesHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the borrow of the body.
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
            has_reasoning_params: self.has_reasoning_params,
            shows_reasoning: self.shows_reasoning,
            own_hints: self.own_hints,
            layout: self.layout,
        }
    }

    /// Hints that were sent and that no upstream receives.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| IGNORED_HINTS.contains(name))
    }

    /// Hints that were sent and that an upstream of another format does not receive.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Every top-level field in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// The input items; empty if none of them is reasoning.
    pub(super) items: Vec<ItemPlace>,
    /// Whether `include` requests sealed reasoning.
    pub(super) includes_seal: bool,
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

/// Position of one input item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemPlace {
    pub(super) span: Span,
    pub(super) is_reasoning: bool,
    /// The seal of reasoning, quotes included.
    pub(super) seal: Option<Span>,
}
