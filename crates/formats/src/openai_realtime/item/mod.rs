//! Items of a conversation.

mod read;
mod write;

use std::sync::Arc;

use bytes::Bytes;

pub(super) use read::{read_item, read_item_id, read_reference};
pub(super) use write::write_item;

/// Item of a conversation: a message, or a part of a function call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Id of 1 to 64 letters, digits, `_` and `-`. `None` if the client leaves it to the server.
    pub id: Option<Arc<str>>,
    pub kind: ItemKind,
}

/// Content of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Message {
        role: Role,
        content: Vec<ContentPart>,
    },
    /// Call of a function by the model.
    FunctionCall {
        /// Id that the output refers to. `None` if the client leaves it to the server.
        call_id: Option<Arc<str>>,
        name: Arc<str>,
        /// JSON text as the model wrote it. It can be invalid.
        arguments: Arc<str>,
    },
    /// Result of a function, from the client.
    FunctionCallOutput {
        call_id: Arc<str>,
        output: Arc<str>,
    },
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    System,
}

/// Part of a message. A user has `Input…` parts, the assistant `Output…` parts, and the system
/// `InputText` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPart {
    InputText {
        text: Arc<str>,
    },
    InputAudio {
        /// Audio in the session's input format; empty after it was dropped.
        audio: Bytes,
        /// `None` until the audio is transcribed.
        transcript: Option<Arc<str>>,
    },
    /// Image, for which the caller decides whether the model takes it.
    InputImage {
        /// URL, or a `data:` URL with the image itself.
        image_url: Arc<str>,
        /// `auto`, `low` or `high`.
        detail: Option<&'static str>,
    },
    OutputText {
        text: Arc<str>,
    },
    OutputAudio {
        /// Audio in the session's output format; empty after it was dropped.
        audio: Bytes,
        transcript: Option<Arc<str>>,
    },
}

/// State of an item of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStatus {
    InProgress,
    Completed,
    /// Ended early, such as by an interruption or the token limit.
    Incomplete,
}
