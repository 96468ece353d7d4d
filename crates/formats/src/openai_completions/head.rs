//! Properties of a completions request that the gateway extracts in one pass.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
use crate::openai_chat::IGNORED_HINTS;
use crate::request::ResponseFormatKind;

macro_rules! fields {
    ($($variant:ident => $name:literal,)*) => {
        /// Top-level field that the format defines.
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

fields! {
    Model => "model",
    Prompt => "prompt",
    MaxTokens => "max_tokens",
    Stream => "stream",
    StreamOptions => "stream_options",
    Temperature => "temperature",
    TopP => "top_p",
    N => "n",
    BestOf => "best_of",
    Stop => "stop",
    Seed => "seed",
    Suffix => "suffix",
    Echo => "echo",
    Logprobs => "logprobs",
    FrequencyPenalty => "frequency_penalty",
    PresencePenalty => "presence_penalty",
    LogitBias => "logit_bias",
    ResponseFormat => "response_format",
    ServiceTier => "service_tier",
    User => "user",
}

/// Fields that the common form cannot express. `prompt` stands for prompts other than a single
/// text.
pub const COMPLETIONS_ONLY: &[&str] = &["prompt", "suffix", "best_of", "echo", "logprobs"];

/// Fields that control a provider's storage, caches and abuse detection. They do not affect the
/// response.
const BOOKKEEPING: &[&str] = &[
    "metadata",
    "safety_identifier",
    "store",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// A validated request without its prompt. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct CompletionHead<'a> {
    /// Model name, as sent in the request.
    pub model: Cow<'a, str>,
    /// Whether the caller requested a streamed response.
    pub stream: bool,
    /// Whether the caller requested usage at the end of the stream.
    pub include_usage: bool,
    /// Maximum number of output tokens of each choice; 0 generates none.
    pub max_tokens: u64,
    /// Number of returned choices for each prompt, 1 to 128.
    pub n: u32,
    /// Number of generated choices for each prompt; the best `n` are returned.
    pub best_of: u32,
    /// Number of prompts, at least 1.
    pub prompts: u32,
    /// Number of tokens in the token prompts.
    pub tokens: u64,
    /// Number of bytes of the token prompts in the body.
    pub token_bytes: u64,
    /// Whether each choice starts with its prompt.
    pub echo: bool,
    /// Required format of the response.
    pub response_format: ResponseFormatKind,
    pub(super) present: u32,
    pub(super) layout: Layout,
}

impl CompletionHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the body.
    pub fn into_owned(self) -> CompletionHead<'static> {
        CompletionHead {
            model: Cow::Owned(self.model.into_owned()),
            ..self
        }
    }

    /// Whether the field was sent with a value other than null.
    pub fn has(&self, field: Field) -> bool {
        self.present & (1 << field as u8) != 0
    }

    /// Returns the total number of returned choices.
    pub fn choices(&self) -> u32 {
        self.n.saturating_mul(self.prompts)
    }

    /// Whether the request uses the field. The default values of `n`, `best_of` and `echo` do not
    /// count, nor does a `prompt` that is a single text. Any other field counts if it was sent with
    /// a value other than null.
    fn is_requested(&self, field: Field) -> bool {
        match field {
            Field::Prompt => self.prompts > 1 || self.tokens > 0,
            Field::N => self.n > 1,
            Field::BestOf => self.best_of > self.n,
            Field::Echo => self.echo,
            _ => self.has(field),
        }
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
            .filter(|name| is_hint(name) && !allowed.contains(name))
    }
}

/// Whether the gateway ignores the field because it does not affect the response.
pub(super) fn is_hint(name: &str) -> bool {
    IGNORED_HINTS.contains(&name) || BOOKKEEPING.contains(&name)
}

/// Refuses fields that neither the format defines nor `allowed` lists, with `unknown_parameter`.
/// Fields that the gateway ignores are accepted.
pub fn check_unknown(head: &CompletionHead<'_>, allowed: &[&str]) -> Result<(), DecodeError> {
    let is_valid = |name: &&str| allowed.contains(name) || is_hint(name);
    match head.unknown_fields().find(|name| !is_valid(name)) {
        Some(name) => Err(DecodeError::unknown(name.chars().take(80).collect::<String>())),
        None => Ok(()),
    }
}

/// Refuses a request with a field that the provider does not support, with `unsupported_parameter`.
/// The gateway always converts a request with a structured response to chat completions, so such a
/// request cannot have fields of `COMPLETIONS_ONLY`.
pub fn check_unsupported(head: &CompletionHead<'_>, unsupported_fields: &[&str]) -> Result<(), DecodeError> {
    let is_structured = head.response_format != ResponseFormatKind::Text;
    let lacks = |field: &&Field| {
        let name = field.as_str();
        let is_completions_only = is_structured && COMPLETIONS_ONLY.contains(&name);
        head.is_requested(**field) && (is_completions_only || unsupported_fields.contains(&name))
    };
    match Field::ALL.iter().find(lacks) {
        None => Ok(()),
        Some(Field::Prompt) => Err(DecodeError::unsupported(
            "prompt",
            "must be a single string for this model; send each prompt as text in a separate request",
        )),
        Some(field) if is_structured => Err(DecodeError::unsupported(
            field.as_str(),
            "cannot be combined with 'response_format'",
        )),
        Some(field) => Err(DecodeError::unsupported(
            field.as_str(),
            "is not supported by this model; remove it or choose another model",
        )),
    }
}

/// Positions of values in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// All top-level fields, in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Names of the fields without a [`Field`].
    pub(super) unknown: Vec<Box<str>>,
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
