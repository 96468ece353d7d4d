//! What the gateway knows of an embeddings request after one look at its bytes.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::lossless::Span;

/// The most inputs of one request.
pub const MAX_INPUTS: u32 = 2_048;

/// A top-level field that the format knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// `model`
    Model,
    /// `input`
    Input,
    /// `encoding_format`
    EncodingFormat,
    /// `dimensions`
    Dimensions,
    /// `user`
    User,
}

impl Field {
    /// Every field.
    pub const ALL: [Field; 5] = [
        Field::Model,
        Field::Input,
        Field::EncodingFormat,
        Field::Dimensions,
        Field::User,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Field::Model => "model",
            Field::Input => "input",
            Field::EncodingFormat => "encoding_format",
            Field::Dimensions => "dimensions",
            Field::User => "user",
        }
    }

    /// The field with this name.
    pub fn parse(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.as_str() == name)
    }
}

/// Hints that some clients send everywhere and without which the vectors are the same. They are accepted, never
/// forwarded, and reported as ignored.
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

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// A list of numbers.
    #[default]
    Float,
    /// Base64 of 32-bit floats, the lowest byte first.
    Base64,
}

impl Encoding {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Float => "float",
            Encoding::Base64 => "base64",
        }
    }
}

/// A validated embeddings request, without its input. Places in the body are kept for
/// [`splice_request`](super::splice_request).
#[derive(Clone, Debug, Default)]
pub struct EmbedHead<'a> {
    /// The model as the caller named it.
    pub model: Cow<'a, str>,
    /// How many inputs, 1 to [`MAX_INPUTS`].
    pub inputs: u32,
    /// Bytes of the inputs that are text, escapes resolved.
    pub text_bytes: u64,
    /// Tokens of the inputs that are tokens.
    pub tokens: u64,
    /// How the caller wants the vectors.
    pub encoding: Encoding,
    /// How long the caller wants the vectors, at least 1.
    pub dimensions: Option<u32>,
    pub(super) present: u8,
    pub(super) layout: Layout,
}

impl EmbedHead<'_> {
    /// The same without a borrow of the body, so that it can be kept beside it.
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

    /// Names of top-level fields that the format does not know, in the order of the body, ignored hints included.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.layout.unknown.iter().map(|name| &**name)
    }

    /// Hints that were sent and are dropped when the request is forwarded, unless `allowed` lets them through.
    pub fn ignored_hints<'h>(&'h self, allowed: &'h [&str]) -> impl Iterator<Item = &'h str> {
        self.unknown_fields()
            .filter(|name| IGNORED_HINTS.contains(name) && !allowed.contains(name))
    }
}

/// Refuses fields that neither the format knows nor `allowed` lets through, with `unknown_parameter`.
pub fn check_unknown(head: &EmbedHead<'_>, allowed: &[&str]) -> Result<(), DecodeError> {
    let is_fine = |name: &&str| allowed.contains(name) || IGNORED_HINTS.contains(name);
    match head.unknown_fields().find(|name| !is_fine(name)) {
        Some(name) => Err(DecodeError::unknown(name.chars().take(80).collect::<String>())),
        None => Ok(()),
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
