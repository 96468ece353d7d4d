//! What the gateway knows of a messages request after one look at its bytes.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
use crate::request::{Media, ResponseFormatKind};

/// The header `anthropic-version`, which decides about a few fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// `2023-06-01`, also for those who send none.
    #[default]
    V2023_06_01,
    /// `2026-10-21`: no sampling parameters.
    V2026_10_21,
}

impl Version {
    /// Reads the header.
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

    /// As it stands in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2023_06_01 => "2023-06-01",
            Version::V2026_10_21 => "2026-10-21",
        }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An answer.
    Generate,
    /// The number of its tokens: `max_tokens` may be missing.
    Count,
}

/// Hints of other families, and of previews of this one, that some clients send everywhere. They are accepted, never
/// forwarded, and reported as ignored.
pub(super) const IGNORED_HINTS: &[&str] = &[
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "client_metadata",
];

/// A validated request, without its content. Places in the body are kept for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct MessagesHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// Which version of the format the caller speaks.
    pub version: Version,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// The caller's cap on output tokens.
    pub max_tokens: Option<u64>,
    /// Of them, those that are set apart for reasoning; zero when none are.
    pub reasoning_budget: u64,
    /// How many messages, at least 1.
    pub messages: u32,
    /// How many tools.
    pub tools: u32,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    /// What of the conversation is not text.
    pub media: Media,
    /// Whether anything is said about reasoning.
    pub says_how_to_reason: bool,
    /// Whether something is to be kept in a cache for an hour.
    pub caches_for_an_hour: bool,
    /// What other formats have no place for and no answer depends on.
    pub(super) own_hints: Vec<&'static str>,
    pub(super) layout: Layout,
}

impl MessagesHead<'_> {
    /// The same without a borrow of the body, so that it can be kept beside it.
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
            says_how_to_reason: self.says_how_to_reason,
            caches_for_an_hour: self.caches_for_an_hour,
            own_hints: self.own_hints,
            layout: self.layout,
        }
    }

    /// The field that asks for a shape of the answer.
    pub fn format_param(&self) -> &'static str {
        match self.layout.field("response_format") {
            Some(_) => "response_format",
            None => "output_config.format",
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
    /// Contents that have sealed reasoning in them, in the order of the body.
    pub(super) contents: Vec<ContentPlace>,
    /// The schema in `response_format`.
    pub(super) schema: Option<Span>,
    /// Just after the opening brace of `output_config`, and whether it is empty.
    pub(super) output_config: Option<(u32, bool)>,
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

/// The content of a message.
#[derive(Clone, Debug)]
pub(super) struct ContentPlace {
    /// The array, brackets and all.
    pub(super) span: Span,
    pub(super) blocks: Vec<BlockPlace>,
}

/// One block of a content.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlace {
    pub(super) span: Span,
    /// The seal of reasoning, quotes and all.
    pub(super) seal: Option<Span>,
}
