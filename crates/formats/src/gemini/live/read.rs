//! Reading of the server's messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::super::wire;
use super::{LiveCall, LiveEnd, LiveEvent, read_live_usage};
use crate::error::DecodeError;

/// Media types of a spoken answer.
const AUDIO_TYPES: [&str; 2] = ["audio/pcm", "audio/pcm;rate=24000"];
/// Reasons for the end of a turn that are not a block.
const FINISHED: [&str; 3] = [
    "TURN_COMPLETE_REASON_UNSPECIFIED",
    "NEED_MORE_INPUT",
    "MAX_REGENERATION_REACHED",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Message {
    setup_complete: Option<Value>,
    server_content: Option<ServerContent>,
    tool_call: Option<ToolCall>,
    tool_call_cancellation: Option<ToolCallCancellation>,
    usage_metadata: Option<Value>,
    go_away: Option<Value>,
    session_resumption_update: Option<SessionResumptionUpdate>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ServerContent {
    model_turn: Option<wire::Content>,
    turn_complete: Option<bool>,
    turn_complete_reason: Option<String>,
    interrupted: Option<bool>,
    generation_complete: Option<bool>,
    input_transcription: Option<Transcription>,
    output_transcription: Option<Transcription>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Transcription {
    text: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ToolCall {
    function_calls: Option<Vec<wire::FunctionCall>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ToolCallCancellation {
    ids: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SessionResumptionUpdate {
    new_handle: Option<String>,
    resumable: Option<bool>,
}

/// Parses a message of the server into its parts, in the order in which they apply: the usage
/// precedes the end of the turn. Unknown members are ignored. The error quotes nothing of the
/// message.
pub fn parse_live(text: &[u8]) -> Result<Vec<LiveEvent>, DecodeError> {
    let message: Message = serde_json::from_slice(text).map_err(|error| {
        DecodeError::invalid_json(format!(
            "The message cannot be parsed (line {}, column {}).",
            error.line(),
            error.column()
        ))
    })?;
    let mut events = Vec::new();
    if message.setup_complete.is_some() {
        events.push(LiveEvent::SetupComplete);
    }
    if let Some(update) = message.session_resumption_update {
        let handle = update.new_handle.filter(|handle| !handle.is_empty());
        let is_resumable = update.resumable.unwrap_or(false);
        events.push(LiveEvent::Resumption(handle.filter(|_| is_resumable)));
    }
    if message.go_away.is_some() {
        events.push(LiveEvent::GoAway);
    }
    let content = message.server_content.unwrap_or_default();
    let ends = (
        content.generation_complete,
        content.interrupted,
        content.turn_complete,
    );
    let reason = content.turn_complete_reason;
    let words = |transcription: Option<Transcription>| {
        let text = transcription?.text?;
        (!text.is_empty()).then_some(text)
    };
    events.extend(words(content.input_transcription).map(LiveEvent::Heard));
    events.extend(words(content.output_transcription).map(LiveEvent::Transcript));
    for part in content.model_turn.map(|turn| turn.parts).unwrap_or_default() {
        events.extend(read_part(part)?);
    }
    let calls = message.tool_call.and_then(|call| call.function_calls);
    events.extend(calls.unwrap_or_default().into_iter().map(|call| {
        LiveEvent::Call(LiveCall {
            id: call.id.unwrap_or_default(),
            name: call.name,
            arguments: call
                .args
                .map_or_else(|| "{}".to_owned(), |args| args.get().to_owned()),
        })
    }));
    let cancelled = message.tool_call_cancellation.and_then(|cancelled| cancelled.ids);
    events.extend(cancelled.map(LiveEvent::CallsCancelled));
    let usage = message.usage_metadata.as_ref().and_then(read_live_usage);
    events.extend(usage.map(LiveEvent::Usage));
    let (is_generated, is_interrupted, is_complete) = ends;
    for (has_ended, event) in [
        (is_generated, LiveEvent::GenerationComplete),
        (is_interrupted, LiveEvent::Interrupted),
        (is_complete, LiveEvent::TurnComplete(end(reason.as_deref()))),
    ] {
        if has_ended == Some(true) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Reads a part of the answer. Thoughts, and parts of other kinds, are `None`.
fn read_part(part: wire::Part) -> Result<Option<LiveEvent>, DecodeError> {
    if let Some(blob) = part.inline_data {
        if !AUDIO_TYPES.contains(&blob.mime_type.replace(' ', "").as_str()) {
            let message = "The media type must be audio/pcm at 24 kHz.";
            return Err(DecodeError::invalid("inlineData.mimeType", message));
        }
        let audio = STANDARD
            .decode(blob.data)
            .map_err(|_| DecodeError::invalid("inlineData.data", "The data must be base64."))?;
        return Ok((!audio.is_empty()).then(|| LiveEvent::Audio(Bytes::from(audio))));
    }
    let is_thought = part.thought == Some(true);
    let text = part.text.filter(|text| !is_thought && !text.is_empty());
    Ok(text.map(LiveEvent::Text))
}

fn end(reason: Option<&str>) -> LiveEnd {
    match reason {
        None => LiveEnd::Completed,
        Some("MALFORMED_FUNCTION_CALL") => LiveEnd::Malformed,
        Some(reason) if FINISHED.contains(&reason) => LiveEnd::Completed,
        // All other reasons name a safety check.
        Some(_) => LiveEnd::Blocked,
    }
}
