//! Writing of the client's events.

use super::super::item::{ContentPart, ItemKind};
use super::super::writer::Object;
use super::super::{AudioFormat, Dialect, Previous, SessionKind};
use super::{ResponseInput, SessionSettings, SessionShape, UpstreamCommand};

/// Capacity of a buffer for an event without audio, instructions and items.
const EVENT_BYTES: usize = 512;

impl UpstreamCommand<'_> {
    /// Returns the event as JSON text. Errors of the server about it repeat `event_id`.
    pub fn write(&self, event_id: &str) -> String {
        Object::to_text(self.size_hint(), |event| {
            event.text("type", self.name());
            event.text("event_id", event_id);
            self.write_members(event);
        })
    }

    /// Returns the `type` of the event.
    pub const fn name(&self) -> &'static str {
        match self {
            UpstreamCommand::UpdateSession { .. } | UpstreamCommand::UpdateTranscription { .. } => {
                "session.update"
            }
            UpstreamCommand::AppendAudio { .. } => "input_audio_buffer.append",
            UpstreamCommand::CommitAudio => "input_audio_buffer.commit",
            UpstreamCommand::ClearAudio => "input_audio_buffer.clear",
            UpstreamCommand::CreateItem { .. } => "conversation.item.create",
            UpstreamCommand::DeleteItem { .. } => "conversation.item.delete",
            UpstreamCommand::TruncateItem { .. } => "conversation.item.truncate",
            UpstreamCommand::CreateResponse { .. } => "response.create",
            UpstreamCommand::CancelResponse { .. } => "response.cancel",
        }
    }

    /// Estimates the size of the JSON text in bytes, so that the buffer of audio grows only once.
    fn size_hint(&self) -> usize {
        let larger = match self {
            UpstreamCommand::AppendAudio { audio } => audio.len().div_ceil(3) * 4,
            UpstreamCommand::UpdateSession { settings, .. } => {
                settings.map_or(0, |settings| settings.instructions.len())
            }
            UpstreamCommand::UpdateTranscription { settings, .. } => {
                settings.prompt.as_ref().map_or(0, |prompt| prompt.len())
            }
            _ => 0,
        };
        EVENT_BYTES + larger
    }

    fn write_members(&self, event: &mut Object<'_>) {
        match *self {
            UpstreamCommand::UpdateSession { shape, settings } => {
                event.object("session", |session| write_session(shape, settings, session));
            }
            UpstreamCommand::UpdateTranscription { model, settings } => event.object("session", |session| {
                session.text("type", SessionKind::Transcription.as_str());
                session.object("audio", |audio| {
                    audio.object("input", |input| {
                        input.object("format", |format| AudioFormat::Pcm.write(format));
                        input.object("transcription", |transcription| {
                            transcription.text("model", model);
                            settings.write_hints(transcription);
                        });
                        input.raw("turn_detection", "null");
                    });
                });
            }),
            UpstreamCommand::AppendAudio { audio } => event.base64("audio", audio),
            UpstreamCommand::CommitAudio | UpstreamCommand::ClearAudio => {}
            UpstreamCommand::CreateItem {
                item_id,
                item,
                previous,
            } => {
                match previous {
                    None => {}
                    Some(Previous::Root) => event.text("previous_item_id", "root"),
                    Some(Previous::After(id)) => event.text("previous_item_id", id),
                }
                event.object("item", |value| {
                    value.text("id", item_id);
                    write_item(item, value);
                });
            }
            UpstreamCommand::DeleteItem { item_id } => event.text("item_id", item_id),
            UpstreamCommand::TruncateItem {
                item_id,
                audio_end_ms,
            } => {
                event.text("item_id", item_id);
                event.number("content_index", 0);
                event.number("audio_end_ms", audio_end_ms);
            }
            UpstreamCommand::CreateResponse {
                max_output_tokens,
                outside,
            } => event.object("response", |response| {
                write_response(max_output_tokens, outside, response);
            }),
            UpstreamCommand::CancelResponse { response_id } => event.optional("response_id", response_id),
        }
    }
}

fn write_session(shape: SessionShape, settings: Option<SessionSettings<'_>>, session: &mut Object<'_>) {
    let is_nested = shape == SessionShape::Nested;
    if is_nested {
        session.text("type", SessionKind::Voice.as_str());
    } else {
        session.object("turn_detection", |detection| detection.raw("type", "null"));
    }
    session.object("audio", |audio| {
        audio.object("input", |input| {
            input.object("format", |format| AudioFormat::Pcm.write(format));
            if is_nested {
                input.raw("transcription", "null");
                input.raw("turn_detection", "null");
            }
        });
        audio.object("output", |output| {
            output.object("format", |format| AudioFormat::Pcm.write(format));
            if let Some(settings) = settings {
                if is_nested {
                    output.optional("voice", settings.voice);
                }
                if let Some(speed) = settings.speed {
                    output.number("speed", speed);
                }
            }
        });
    });
    let Some(settings) = settings else { return };
    if !is_nested {
        session.optional("voice", settings.voice);
    }
    settings.modality.write(Dialect::Ga, session);
    session.text("instructions", settings.instructions);
    session.objects("tools", settings.tools, |value, tool| tool.write(value));
    settings.tool_choice.write(session);
    if let Some(is_parallel) = settings.parallel_tool_calls {
        session.flag("parallel_tool_calls", is_parallel);
    }
    if let Some(temperature) = settings.temperature {
        session.number("temperature", temperature);
    }
}

fn write_response(max_output_tokens: u64, outside: Option<&[ResponseInput]>, response: &mut Object<'_>) {
    response.number("max_output_tokens", max_output_tokens);
    let Some(input) = outside else { return };
    response.text("conversation", "none");
    response.objects("input", input, |value, element| match element {
        ResponseInput::Reference(id) => {
            value.text("type", "item_reference");
            value.text("id", id);
        }
        ResponseInput::Item(item) => write_item(item, value),
    });
}

/// Writes the members of a new item, without those that only a server's item has.
fn write_item(item: &ItemKind, object: &mut Object<'_>) {
    match item {
        ItemKind::Message { role, content } => {
            object.text("type", "message");
            object.text("role", role.as_str());
            object.objects("content", content, write_part);
        }
        ItemKind::FunctionCall {
            call_id,
            name,
            arguments,
        } => {
            object.text("type", "function_call");
            object.optional("call_id", call_id.as_deref());
            object.text("name", name);
            object.text("arguments", arguments);
        }
        ItemKind::FunctionCallOutput { call_id, output } => {
            object.text("type", "function_call_output");
            object.text("call_id", call_id);
            object.text("output", output);
        }
    }
}

fn write_part(object: &mut Object<'_>, part: &ContentPart) {
    match part {
        ContentPart::InputText { text } => {
            object.text("type", "input_text");
            object.text("text", text);
        }
        ContentPart::OutputText { text } => {
            object.text("type", "output_text");
            object.text("text", text);
        }
        ContentPart::InputAudio { audio, transcript } => {
            object.text("type", "input_audio");
            object.base64("audio", audio);
            object.optional("transcript", transcript.as_deref());
        }
        // Servers do not accept audio of the assistant, only its words.
        ContentPart::OutputAudio { transcript, .. } => {
            object.text("type", "output_text");
            object.text("text", transcript.as_deref().unwrap_or_default());
        }
        ContentPart::InputImage { image_url, detail } => {
            object.text("type", "input_image");
            object.text("image_url", image_url);
            object.optional("detail", *detail);
        }
    }
}
