//! Properties of a responses request that the gateway extracts in one pass.

use std::borrow::Cow;

use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// Fields of other formats, and fields for clients' internal use. They do not affect the response.
/// The gateway accepts them, never forwards them, and reports them as ignored.
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
    /// Model name, as sent in the request.
    pub model: Cow<'a, str>,
    /// Whether the caller requested a streamed response.
    pub stream: bool,
    /// Value of `store`: whether the gateway stores the response. Default: true.
    pub store: bool,
    /// Whether the response runs in the background and the caller fetches it later.
    pub background: bool,
    /// Id of the response that this request continues.
    pub previous_response_id: Option<Cow<'a, str>>,
    /// Maximum number of output tokens, as set by the caller.
    pub max_tokens: Option<u64>,
    /// Number of input items; a text counts as one item.
    pub items: u32,
    /// Number of tools.
    pub tools: u32,
    /// Required format of the response.
    pub response_format: ResponseFormatKind,
    /// Counts of the images, audio and documents in the input.
    pub media: Media,
    /// Whether the request has reasoning parameters.
    pub has_reasoning_params: bool,
    /// Whether the caller requested a summary of the reasoning.
    pub shows_reasoning: bool,
    /// Sent fields that other formats cannot express and that do not affect the response.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl ResponsesHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the body.
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

    /// Returns the names of the sent fields that the gateway ignores.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| IGNORED_HINTS.contains(name))
    }

    /// Returns the names of the sent fields that other formats cannot express and that do not
    /// affect the response.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// All top-level fields, in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Positions of the input items; empty if none of them is reasoning.
    pub(super) items: Vec<ItemPlace>,
    /// Whether `include` requests the encrypted content of reasoning.
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
    /// Position of `encrypted_content` in a reasoning item, quotes included.
    pub(super) seal: Option<Span>,
}
