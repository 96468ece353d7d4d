//! The data that the gateway extracts from a chat request in one pass.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
pub use crate::request::{Media, ResponseFormatKind};

macro_rules! fields {
    ($($variant:ident => $name:literal,)*) => {
        /// A top-level field of a chat request that the format knows.
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

            /// Name of the field on the wire.
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

// The most frequent first: names are compared in this order.
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

/// Hints of other formats that some clients always send. They are accepted, never forwarded, and
/// reported as ignored.
pub const IGNORED_HINTS: &[&str] = &[
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    // OpenRouter's request for the cost, which every answer has here anyway.
    "usage",
];

/// The caller's cap on output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTokens {
    /// Number of tokens, at least 1.
    pub value: u64,
    /// [`Field::MaxCompletionTokens`] or [`Field::MaxTokens`]; the former when both were sent with
    /// the same value.
    pub field: Field,
}

/// A validated chat request without its content. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct ChatHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the caller requested usage at the end of the stream.
    pub include_usage: bool,
    /// The caller's cap on output tokens, if it set one.
    pub max_tokens: Option<MaxTokens>,
    /// Number of answers, 1 to 128.
    pub n: u32,
    /// Number of messages, at least 1.
    pub messages: u32,
    /// Number of tools, deprecated functions included.
    pub tools: u32,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    /// Whether the caller requested token probabilities.
    pub logprobs: bool,
    /// Whether the caller requested audio output.
    pub audio_output: bool,
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    pub reasoning_effort: Option<&'static str>,
    /// Sampling temperature, 0 to 2; some models have a lower maximum.
    pub temperature: Option<f64>,
    /// Value of `store`: whether the caller requested storage of the answer.
    pub store: bool,
    /// Counts of the images, audio and documents in the conversation.
    pub media: Media,
    pub(super) present: u64,
    pub(super) layout: Layout,
}

impl ChatHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the borrow of the body.
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

    /// Names of unknown top-level fields, in the order of the body, ignored hints included.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.layout.unknown.iter().map(|name| &**name)
    }

    /// Hints that were sent and are dropped on forwarding, except those in `allowed`.
    pub fn ignored_hints<'h>(&'h self, allowed: &'h [&str]) -> impl Iterator<Item = &'h str> {
        self.unknown_fields()
            .filter(|name| IGNORED_HINTS.contains(name) && !allowed.contains(name))
    }
}

/// Refuses fields that are neither known nor in `allowed` with `unknown_parameter`. `allowed` names
/// vendor fields of the chosen provider, so this is not part of [`validate`](super::validate()).
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
    /// Every top-level field in the order of the body.
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
    /// Position just after its opening brace.
    pub(super) open: u32,
    /// Whether it has no keys.
    pub(super) empty: bool,
    /// The value of `include_usage`, if the key is present.
    pub(super) include_usage: Option<Span>,
}
