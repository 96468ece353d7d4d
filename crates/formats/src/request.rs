//! Request properties that every format shares.

/// The shape that the answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResponseFormatKind {
    /// Free text, the default.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema,
}

/// Counts of the media in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Media {
    /// Number of images.
    pub images: u32,
    /// Number of audio parts.
    pub audio: u32,
    /// Number of documents.
    pub files: u32,
    /// Number of these that are given by an address.
    pub addresses: u32,
    /// Number of these that are files uploaded by the caller, given by id.
    pub stored: u32,
    /// Bytes of inline media in the body: data URLs and base64. They are part of the body size but
    /// not of the text size.
    pub inline_bytes: u64,
}
