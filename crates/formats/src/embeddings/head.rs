//! Properties of an embeddings request that the gateway extracts in one pass.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;

/// Maximum number of inputs per request.
pub const MAX_INPUTS: u32 = 2_048;

/// Top-level field that the format defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// Required; a non-empty string.
    Model,
    /// Required; text or tokens, as one input or a list of inputs.
    Input,
    /// `float` (default) or `base64`.
    EncodingFormat,
    /// Requested number of dimensions of the vectors.
    Dimensions,
    /// Id of the end user.
    User,
}

impl Field {
    /// All variants, in declaration order.
    pub const ALL: [Field; 5] = [
        Field::Model,
        Field::Input,
        Field::EncodingFormat,
        Field::Dimensions,
        Field::User,
    ];

    /// Returns the name of the field on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Field::Model => "model",
            Field::Input => "input",
            Field::EncodingFormat => "encoding_format",
            Field::Dimensions => "dimensions",
            Field::User => "user",
        }
    }

    /// Returns the field with this wire name.
    pub fn parse(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.as_str() == name)
    }
}

/// Fields that some clients always send and that do not affect the vectors. The gateway accepts
/// them, never forwards them, and reports them as ignored.
pub const IGNORED_HINTS: &[&str] = &[
    "metadata",
    "safety_identifier",
    "service_tier",
    "store",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
];

/// Encoding of the vectors in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// A JSON array of numbers.
    #[default]
    Float,
    /// Base64 of little-endian 32-bit floats.
    Base64,
}

impl Encoding {
    /// Returns the value of `encoding_format` on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Float => "float",
            Encoding::Base64 => "base64",
        }
    }
}

/// A validated embeddings request without its input. It stores positions in the body for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug, Default)]
pub struct EmbedHead<'a> {
    /// Model name, as sent in the request.
    pub model: Cow<'a, str>,
    /// Number of inputs, 1 to [`MAX_INPUTS`].
    pub inputs: u32,
    /// Number of bytes of the text inputs, escapes resolved.
    pub text_bytes: u64,
    /// Number of tokens in the token inputs.
    pub tokens: u64,
    /// Requested encoding of the vectors.
    pub encoding: Encoding,
    /// Requested number of dimensions of the vectors, at least 1.
    pub dimensions: Option<u32>,
    pub(super) present: u8,
    pub(super) layout: Layout,
}

impl EmbedHead<'_> {
    /// Copies borrowed strings, so that the head can outlive the body.
    pub fn into_owned(self) -> EmbedHead<'static> {
        EmbedHead {
            model: Cow::Owned(self.model.into_owned()),
            inputs: self.inputs,
            text_bytes: self.text_bytes,
            tokens: self.tokens,
            encoding: self.encoding,
            dimensions: self.dimensions,
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
    /// These fields are not forwarded.
    pub fn ignored_hints<'h>(&'h self, allowed: &'h [&str]) -> impl Iterator<Item = &'h str> {
        self.unknown_fields()
            .filter(|name| IGNORED_HINTS.contains(name) && !allowed.contains(name))
    }
}

/// Refuses fields that neither the format defines nor `allowed` or [`IGNORED_HINTS`] lists, with
/// `unknown_parameter`.
pub fn check_unknown(head: &EmbedHead<'_>, allowed: &[&str]) -> Result<(), DecodeError> {
    let is_valid = |name: &&str| allowed.contains(name) || IGNORED_HINTS.contains(name);
    match head.unknown_fields().find(|name| !is_valid(name)) {
        Some(name) => Err(DecodeError::unknown(name.chars().take(80).collect::<String>())),
        None => Ok(()),
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
