//! What the gateway knows of a completions request after one look at its bytes.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;
use crate::openai_chat::IGNORED_HINTS;
use crate::request::ResponseFormatKind;

macro_rules! fields {
    ($($variant:ident => $name:literal,)*) => {
        /// A top-level field that the format knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Field {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Field {
            /// Every field.
            pub const ALL: &'static [Field] = &[$(Field::$variant,)*];

            /// Its name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Field::$variant => $name,)*
                }
            }

            /// The field with this name.
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

/// What only this format has. `prompt` stands for prompts that are more than one text.
pub const BEYOND_CHAT: &[&str] = &["prompt", "suffix", "best_of", "echo", "logprobs"];

/// Hints for a provider's bookkeeping without which an answer is the same.
const BOOKKEEPING: &[&str] = &[
    "metadata",
    "safety_identifier",
    "store",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// A validated request, without its prompt. Places in the body are kept for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug)]
pub struct CompletionHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the caller asked for usage at the end of the stream.
    pub include_usage: bool,
    /// The cap on output tokens of each answer; 0 asks for none.
    pub max_tokens: u64,
    /// Answers to each prompt, 1 to 128.
    pub n: u32,
    /// Answers that are made for each prompt, of which the best `n` are given.
    pub best_of: u32,
    /// How many prompts, at least 1.
    pub prompts: u32,
    /// Tokens of the prompts that are tokens.
    pub tokens: u64,
    /// Bytes of the body that those tokens take.
    pub token_bytes: u64,
    /// Whether answers begin with their prompt.
    pub echo: bool,
    /// The shape that the answer must have.
    pub response_format: ResponseFormatKind,
    pub(super) present: u32,
    pub(super) layout: Layout,
}

impl CompletionHead<'_> {
    /// The same without a borrow of the body, so that it can be kept beside it.
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

    /// How many answers come in all.
    pub fn choices(&self) -> u32 {
        self.n.saturating_mul(self.prompts)
    }

    /// Whether the field asks for anything that leaving it out does not.
    fn asks(&self, field: Field) -> bool {
        match field {
            Field::Prompt => self.prompts > 1 || self.tokens > 0,
            Field::N => self.n > 1,
            Field::BestOf => self.best_of > self.n,
            Field::Echo => self.echo,
            _ => self.has(field),
        }
    }

    /// Names of top-level fields that the format does not know, in the order of the body, hints included.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.layout.unknown.iter().map(|name| &**name)
    }

    /// Hints that were sent and are dropped when the request is forwarded, unless `allowed` lets them through.
    pub fn ignored_hints<'h>(&'h self, allowed: &'h [&str]) -> impl Iterator<Item = &'h str> {
        self.unknown_fields()
            .filter(|name| is_hint(name) && !allowed.contains(name))
    }
}

/// Whether an answer is the same without the field.
pub(super) fn is_hint(name: &str) -> bool {
    IGNORED_HINTS.contains(&name) || BOOKKEEPING.contains(&name)
}

/// Refuses fields that neither the format knows nor `allowed` lets through, with `unknown_parameter`.
pub fn check_unknown(head: &CompletionHead<'_>, allowed: &[&str]) -> Result<(), DecodeError> {
    let is_fine = |name: &&str| allowed.contains(name) || is_hint(name);
    match head.unknown_fields().find(|name| !is_fine(name)) {
        Some(name) => Err(DecodeError::unknown(name.chars().take(80).collect::<String>())),
        None => Ok(()),
    }
}

/// Refuses a request that needs one of the fields that a provider lacks, with `unsupported_parameter`. A structured
/// answer is asked of chat alone, whoever the provider is, so it lacks what chat lacks.
pub fn check_lacking(head: &CompletionHead<'_>, lacking: &[&str]) -> Result<(), DecodeError> {
    let is_structured = head.response_format != ResponseFormatKind::Text;
    let lacks = |field: &&Field| {
        let name = field.as_str();
        let beyond = is_structured && BEYOND_CHAT.contains(&name);
        head.asks(**field) && (beyond || lacking.contains(&name))
    };
    match Field::ALL.iter().find(lacks) {
        None => Ok(()),
        Some(Field::Prompt) => Err(DecodeError::unsupported(
            "prompt",
            "must be one text for this model; send each prompt in a request of its own, and text instead of tokens",
        )),
        Some(field) if is_structured => Err(DecodeError::unsupported(
            field.as_str(),
            "cannot be combined with 'response_format'",
        )),
        Some(field) => Err(DecodeError::unsupported(
            field.as_str(),
            "is not known to this model; leave it out, or choose another model",
        )),
    }
}

/// Where things stand in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Every top-level field in the order of the body.
    pub(super) fields: Vec<FieldPlace>,
    /// Names of those without a [`Field`].
    pub(super) unknown: Vec<Box<str>>,
}

/// Where one top-level field stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldPlace {
    /// Which one; otherwise its index in [`Layout::unknown`].
    pub(super) name: FieldName,
    /// Place of the key's opening quote.
    pub(super) key: u32,
    /// The value.
    pub(super) value: Span,
}

/// A field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldName {
    Known(Field),
    Unknown(u32),
}
