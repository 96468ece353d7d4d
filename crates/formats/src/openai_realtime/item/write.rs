//! Writing of items in events of the server.

use bytes::Bytes;

use super::super::Dialect;
use super::super::writer::Object;
use super::{ContentPart, Item, ItemKind, ItemStatus, Role};

/// Writes the members of an item. The audio of its parts is written only with `has_audio`.
pub(in super::super) fn write_item(
    item: &Item,
    status: ItemStatus,
    has_audio: bool,
    dialect: Dialect,
    object: &mut Object<'_>,
) {
    object.nullable("id", item.id.as_deref());
    object.text("object", "realtime.item");
    object.text("type", item.kind.as_str());
    object.text("status", status.as_str());
    match &item.kind {
        ItemKind::Message { role, content } => {
            object.text("role", role.as_str());
            object.objects("content", content, |value, part| {
                part.write(has_audio, dialect, value)
            });
        }
        ItemKind::FunctionCall {
            call_id,
            name,
            arguments,
        } => {
            object.nullable("call_id", call_id.as_deref());
            object.text("name", name);
            object.text("arguments", arguments);
        }
        ItemKind::FunctionCallOutput { call_id, output } => {
            object.text("call_id", call_id);
            object.text("output", output);
        }
    }
}

impl ItemKind {
    const fn as_str(&self) -> &'static str {
        match self {
            ItemKind::Message { .. } => "message",
            ItemKind::FunctionCall { .. } => "function_call",
            ItemKind::FunctionCallOutput { .. } => "function_call_output",
        }
    }
}

impl Role {
    /// Returns the value of `role`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

impl ItemStatus {
    /// Returns the value of `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ItemStatus::InProgress => "in_progress",
            ItemStatus::Completed => "completed",
            ItemStatus::Incomplete => "incomplete",
        }
    }
}

impl ContentPart {
    fn write(&self, has_audio: bool, dialect: Dialect, object: &mut Object<'_>) {
        let kind = self.type_name(dialect);
        object.text("type", kind);
        match self {
            ContentPart::InputText { text } | ContentPart::OutputText { text } => object.text("text", text),
            ContentPart::InputAudio { audio, transcript }
            | ContentPart::OutputAudio { audio, transcript } => {
                write_audio(audio, has_audio, object);
                object.nullable("transcript", transcript.as_deref());
            }
            ContentPart::InputImage { image_url, detail } => {
                object.text("image_url", image_url);
                object.optional("detail", *detail);
            }
        }
    }

    const fn type_name(&self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (ContentPart::InputText { .. }, _) => "input_text",
            (ContentPart::InputAudio { .. }, _) => "input_audio",
            (ContentPart::InputImage { .. }, _) => "input_image",
            (ContentPart::OutputText { .. }, Dialect::Ga) => "output_text",
            (ContentPart::OutputText { .. }, Dialect::Beta) => "text",
            (ContentPart::OutputAudio { .. }, Dialect::Ga) => "output_audio",
            (ContentPart::OutputAudio { .. }, Dialect::Beta) => "audio",
        }
    }
}

fn write_audio(audio: &Bytes, has_audio: bool, object: &mut Object<'_>) {
    if has_audio && !audio.is_empty() {
        object.base64("audio", audio);
    }
}
