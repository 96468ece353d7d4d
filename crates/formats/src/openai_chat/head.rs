//! Properties of a chat request that the gateway extracts in one pass.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
pub use crate::request::{Media, ResponseFormatKind};

macro_rules! fields {
    ($($variant:ident => $name:literal,)*) => {
        /// Top-level field of a chat request that the format defines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Field {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Field {
            /// All variants, in declaration order.
            pub const ALL: &'static [Field] = &[$(Field::$variant,)*];

            /// Returns the name of the field on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Field::$variant => $name,)*
                }
            }

            /// Returns the field with this wire name.
            pub fn parse(name: &str) -> Option<Field> {
                match name {
                    $($name => Some(Field::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

// Sorted by frequency, because names are compared in this order.
fields! {
    Model => "model",
    Messages => "messages",
    Stream => "stream",
    StreamOptions => "stream_options",
    Temperature => "temperature",
    MaxTokens => "max_tokens",
    MaxCompletionTokens => "max_completion_tokens",
    Tools => "tools",
    ToolChoice => "tool_choice",
    ParallelToolCalls => "parallel_tool_calls",
    ResponseFormat => "response_format",
    ReasoningEffort => "reasoning_effort",
    TopP => "top_p",
    N => "n",
    Stop => "stop",
    Seed => "seed",
    FrequencyPenalty => "frequency_penalty",
    PresencePenalty => "presence_penalty",
    LogitBias => "logit_bias",
    Logprobs => "logprobs",
    TopLogprobs => "top_logprobs",
    User => "user",
    Metadata => "metadata",
    Store => "store",
    ServiceTier => "service_tier",
    Verbosity => "verbosity",
    Modalities => "modalities",
    Audio => "audio",
    Prediction => "prediction",
    WebSearchOptions => "web_search_options",
    Moderation => "moderation",
    PromptCacheKey => "prompt_cache_key",
    PromptCacheOptions => "prompt_cache_options",
    PromptCacheRetention => "prompt_cache_retention",
    SafetyIdentifier => "safety_identifier",
    Functions => "functions",
    FunctionCall => "function_call",
}

/// Fields of other formats that some clients always send. They do not affect the response. The
/// gateway accepts them, drops them unless they are vendor fields of the upstream, and reports
/// dropped fields as ignored.
pub const IGNORED_HINTS: &[&str] = &[
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    // OpenRouter's request for the cost. The gateway adds the cost to every usage object.
    "usage",
];

/// Maximum number of output tokens, as set by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTokens {
    /// Number of tokens, at least 1.
    pub value: u64,
    /// [`Field::MaxCompletionTokens`] or [`Field::MaxTokens`]; the former if the caller sent both
    /// with the same value.
    pub field: Field,
}

/// A validated chat request without its content. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct ChatHead<'a> {
    /// Model name, as sent in the request.
    pub model: Cow<'a, str>,
    /// Whether the caller requested a streamed response.
    pub stream: bool,
    /// Whether the caller requested usage at the end of the stream.
    pub include_usage: bool,
    /// Maximum number of output tokens, if the caller set one.
    pub max_tokens: Option<MaxTokens>,
    /// Number of requested choices, 1 to 128.
    pub n: u32,
    /// Number of messages, at least 1.
    pub messages: u32,
    /// Number of tools, deprecated functions included.
    pub tools: u32,
    /// Required format of the response.
    pub response_format: ResponseFormatKind,
    /// Whether the caller requested token probabilities.
    pub logprobs: bool,
    /// Whether the caller requested audio output.
    pub audio_output: bool,
    /// Requested reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    pub reasoning_effort: Option<&'static str>,
    /// Sampling temperature, 0 to 2; some models have a lower maximum.
    pub temperature: Option<f64>,
    /// Value of `store`: whether the caller requested storage of the response.
    pub store: bool,
    /// Counts of the images, audio and documents in the conversation.
    pub media: Media,
    pub(super) present: u64,
    pub(super) layout: Layout,
}

impl ChatHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the body.
    pub fn into_owned(self) -> ChatHead<'static> {
        ChatHead {
            model: Cow::Owned(self.model.into_owned()),
            stream: self.stream,
            include_usage: self.include_usage,
            max_tokens: self.max_tokens,
            n: self.n,
            messages: self.messages,
            tools: self.tools,
            response_format: self.response_format,
            logprobs: self.logprobs,
            audio_output: self.audio_output,
            reasoning_effort: self.reasoning_effort,
            temperature: self.temperature,
            store: self.store,
            media: self.media,
            present: self.present,
            layout: self.layout,
        }
    }

    /// Whether the field was sent with a value other than null.
    pub fn has(&self, field: Field) -> bool {
        self.present & (1 << field as u8) != 0
    }

    /// Returns the names of the fields that the format does not define, in the order of the body,
    /// ignored fields included.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.layout.unknown.iter().map(|name| &**name)
    }

    /// Returns the names of the ignored fields that the caller sent, except those in `allowed`.
    /// They are not forwarded.
    pub fn ignored_hints<'h>(&'h self, allowed: &'h [&str]) -> impl Iterator<Item = &'h str> {
        self.unknown_fields()
            .filter(|name| IGNORED_HINTS.contains(name) && !allowed.contains(name))
    }
}

/// Refuses fields that neither the format defines nor `allowed` lists, with `unknown_parameter`.
/// Fields in [`IGNORED_HINTS`] are accepted. `allowed` contains the vendor fields of the chosen
/// provider, so this check is not part of [`validate`](super::validate()).
pub fn check_unknown(head: &ChatHead<'_>, allowed: &[&str]) -> Result<(), DecodeError> {
    let is_valid = |name: &&str| allowed.contains(name) || IGNORED_HINTS.contains(name);
    match head.unknown_fields().find(|name| !is_valid(name)) {
        Some(name) => Err(DecodeError::unknown(name.chars().take(80).collect::<String>())),
        None => Ok(()),
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Position just after the opening brace.
    pub(super) open: u32,
    /// All top-level fields, in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Names of the fields without a [`Field`].
    pub(super) unknown: Vec<Box<str>>,
    /// Position of `stream_options`, if it is an object.
    pub(super) stream_options: Option<StreamOptionsPlace>,
}

/// Position of one top-level field.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldPlace {
    /// The field, or its index in [`Layout::unknown`].
    pub(super) name: FieldName,
    /// Position of the key's opening quote.
    pub(super) key: u32,
    pub(super) value: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldName {
    Known(Field),
    Unknown(u32),
}

/// Positions inside `stream_options`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamOptionsPlace {
    /// Position just after the opening brace of the object.
    pub(super) open: u32,
    /// Whether the object has no keys.
    pub(super) empty: bool,
    /// Position of the value of `include_usage`, if the key is present.
    pub(super) include_usage: Option<Span>,
}
