//! Properties of a messages request that the gateway extracts in one pass.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// Value of the header `anthropic-version`. The version determines the valid fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// `2023-06-01`, also the default without the header.
    #[default]
    V2023_06_01,
    /// `2026-10-21`: no sampling parameters, no documents in assistant messages, and no citations
    /// on user text.
    V2026_10_21,
}

impl Version {
    /// Parses the header; a missing header selects the oldest version.
    pub fn parse(header: Option<&str>) -> Result<Self, DecodeError> {
        match header.map(str::trim) {
            None | Some("2023-06-01") => Ok(Version::V2023_06_01),
            Some("2026-10-21") => Ok(Version::V2026_10_21),
            Some(_) => Err(DecodeError::invalid(
                "anthropic-version",
                "The header 'anthropic-version' must be '2023-06-01' or '2026-10-21'.",
            )),
        }
    }

    /// Returns the value of the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2023_06_01 => "2023-06-01",
            Version::V2026_10_21 => "2026-10-21",
        }
    }
}

/// Endpoint of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `POST /v1/messages`: generates a response.
    Generate,
    /// `POST /v1/messages/count_tokens`: `max_tokens` is optional.
    Count,
}

/// Fields of other formats and of previews that some clients always send. They do not affect the
/// response. The gateway accepts them, never forwards them, and reports them as ignored.
pub(super) const IGNORED_HINTS: &[&str] = &[
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "client_metadata",
];

/// A validated request without its content. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct MessagesHead<'a> {
    /// Model name, as sent in the request.
    pub model: Cow<'a, str>,
    /// The version of the format that the caller uses.
    pub version: Version,
    /// Whether the caller requested a streamed response.
    pub stream: bool,
    /// Maximum number of output tokens, as set by the caller.
    pub max_tokens: Option<u64>,
    /// Tokens of `max_tokens` reserved for reasoning; zero without a budget.
    pub reasoning_budget: u64,
    /// Number of messages, at least 1.
    pub messages: u32,
    /// Number of tools.
    pub tools: u32,
    /// Required format of the response.
    pub response_format: ResponseFormatKind,
    /// Counts of the images and documents in the conversation.
    pub media: Media,
    /// Index of the first message with the role `system`; `None` if no message has this role.
    pub first_instructions: Option<u32>,
    /// Whether the request has reasoning parameters.
    pub has_reasoning_params: bool,
    /// Whether a cache breakpoint has a lifetime of one hour.
    pub caches_for_an_hour: bool,
    /// Sent fields that other formats cannot express and that do not affect the response.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl MessagesHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the body.
    pub fn into_owned(self) -> MessagesHead<'static> {
        MessagesHead {
            model: Cow::Owned(self.model.into_owned()),
            version: self.version,
            stream: self.stream,
            max_tokens: self.max_tokens,
            reasoning_budget: self.reasoning_budget,
            messages: self.messages,
            tools: self.tools,
            response_format: self.response_format,
            media: self.media,
            first_instructions: self.first_instructions,
            has_reasoning_params: self.has_reasoning_params,
            caches_for_an_hour: self.caches_for_an_hour,
            own_hints: self.own_hints,
            layout: self.layout,
        }
    }

    /// Returns the name of the field that sets the format of the response: `response_format` or
    /// `output_format` if the caller sent it, otherwise `output_config.format`.
    pub fn format_param(&self) -> &'static str {
        let names = ["response_format", "output_format"];
        let sent = names.into_iter().find(|name| self.layout.field(name).is_some());
        sent.unwrap_or("output_config.format")
    }

    /// Returns the names of the sent fields that no upstream receives.
    pub fn ignored_hints(&self) -> impl Iterator<Item = &'static str> {
        let names = self.layout.fields.iter().map(|field| field.name);
        names.filter(|name| IGNORED_HINTS.contains(name))
    }

    /// Returns the names of the sent fields that an upstream of another format does not receive.
    pub fn own_hints(&self) -> impl Iterator<Item = &'static str> {
        self.own_hints.iter().copied()
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// All top-level fields, in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Contents of assistant messages that have reasoning, in the order of the body.
    pub(super) contents: Vec<ContentPlace>,
    /// Position of the schema in `response_format` or `output_format`.
    pub(super) schema: Option<Span>,
    /// Position just after the opening brace of `output_config`, and whether the object is empty.
    pub(super) output_config: Option<(u32, bool)>,
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

/// Position of the content of a message.
#[derive(Clone, Debug)]
pub(super) struct ContentPlace {
    /// Position of the array, brackets included.
    pub(super) span: Span,
    pub(super) blocks: Vec<BlockPlace>,
}

/// Position of one content block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlace {
    pub(super) span: Span,
    /// Position of the `signature` or the `data` of reasoning, quotes included; `None` for other
    /// blocks.
    pub(super) seal: Option<Span>,
}
