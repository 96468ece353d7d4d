//! What the gateway wants to know of every request, whatever its format.

/// The shape that the answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResponseFormatKind {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema,
}

/// What of the conversation is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Media {
    /// Pictures.
    pub images: u32,
    /// Sounds.
    pub audio: u32,
    /// Documents.
    pub files: u32,
    /// Those of them that are named by an address.
    pub addresses: u32,
    /// Those of them that the caller has uploaded and names by their ids.
    pub stored: u32,
    /// Bytes of the body that are inline media, data URLs and base64. They count in the body but are no text.
    pub inline_bytes: u64,
}
