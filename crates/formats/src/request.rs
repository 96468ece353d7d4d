//! Properties that requests of all formats have in common.

/// Required format of the response.
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
    /// Number of these media that are referenced by URL.
    pub addresses: u32,
    /// Number of these media that are uploaded files, referenced by id.
    pub stored: u32,
    /// Number of bytes of inline media in the body: data URLs and base64. They are part of the body
    /// size but not of the text size.
    pub inline_bytes: u64,
}
