//! The state of one conversation, and the events of the client.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::script::Script;
use super::super::served::{End, Served, Tokens};
use super::answer::{Answering, Counts};
use super::transcription::Transcriber;
use super::{RealtimeFault, RealtimeWire, USUAL_AUDIO_MS};

/// Maximum length of an id that a client chooses, in characters.
const MAX_ID_CHARS: usize = 32;
/// Bytes of a millisecond of audio.
const BYTES_PER_MS: u64 = 48;

/// An item of the conversation.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub id: String,
    pub item: Value,
    /// Duration of the item's audio.
    pub audio_ms: u64,
    /// Characters of the item's texts.
    pub characters: u64,
}

impl Item {
    pub(super) fn new(id: String, item: Value, audio_ms: u64) -> Self {
        let texts = item["content"].as_array().into_iter().flatten();
        let texts = texts.map(|part| part["text"].as_str().or(part["transcript"].as_str()));
        let whole = ["arguments", "output"].map(|key| item[key].as_str());
        let characters = texts
            .chain(whole)
            .flatten()
            .map(|text| text.chars().count() as u64);
        Self {
            id,
            characters: characters.sum(),
            item,
            audio_ms,
        }
    }
}

/// A conversation on one connection.
pub(super) struct Session<'s> {
    pub script: &'s Script,
    pub wire: RealtimeWire,
    pub model: String,
    pub items: Vec<Item>,
    pub settings: Value,
    pub is_waiting_for_pong: bool,
    /// Tokens of the input of the last response, which the cache contains.
    pub cached: Counts,
    pub answering: Option<Answering>,
    /// Transcription, if the connection has no conversation.
    pub transcriber: Option<Transcriber>,
    sequence: u64,
    buffer: Vec<u8>,
    output: VecDeque<Value>,
    ids: u64,
    served: Option<usize>,
}

/// An error of an event: its code, and the parameter.
type Refusal = (&'static str, &'static str);

impl<'s> Session<'s> {
    pub(super) fn new(
        script: &'s Script,
        wire: RealtimeWire,
        model: &str,
        sequence: u64,
        transcribes: bool,
    ) -> Self {
        let detection = json!({"type": "server_vad", "create_response": true, "interrupt_response": true});
        let settings = match wire {
            RealtimeWire::Xai => json!({"voice": "ara", "turn_detection": detection}),
            _ => json!({"type": "realtime", "model": model, "output_modalities": ["audio"], "audio": {
                "input": {"turn_detection": detection}, "output": {"voice": "alloy", "speed": 1.0}}}),
        };
        let mut session = Self {
            script,
            wire,
            model: model.to_owned(),
            items: Vec::new(),
            settings,
            is_waiting_for_pong: false,
            cached: Counts::default(),
            answering: None,
            transcriber: None,
            sequence,
            buffer: Vec::new(),
            output: VecDeque::new(),
            ids: 0,
            served: None,
        };
        if transcribes {
            session.begin_transcription();
            return session;
        }
        let created = json!({"type": "session.created", "session": session.settings});
        session.push(created);
        if wire != RealtimeWire::OpenAi {
            session.push(json!({"type": "conversation.created", "conversation": {"id": "conv_1"}}));
        }
        session
    }

    /// Returns a new id.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}_{}_{}", self.sequence, self.ids)
    }

    /// Adds an event to the output, with the name that the wire has.
    pub(super) fn push(&mut self, mut event: Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        let renamed = match (self.wire, kind) {
            (RealtimeWire::BetaNames, "conversation.item.added") => "conversation.item.created".to_owned(),
            (RealtimeWire::BetaNames, "conversation.item.done") => return,
            (RealtimeWire::BetaNames, kind) if kind.starts_with("response.output_item.") => kind.to_owned(),
            (RealtimeWire::BetaNames, kind) => kind.replace("response.output_", "response."),
            (RealtimeWire::Vllm, "error") => {
                let error = event["error"].take();
                event["code"] = error["code"].clone();
                event["error"] = error["message"].clone();
                "error".to_owned()
            }
            (_, kind) => kind.to_owned(),
        };
        event["type"] = json!(renamed);
        self.output.push_back(event);
    }

    /// Adds an event that precedes the others.
    pub(super) fn push_first(&mut self, event: Value) {
        self.output.push_front(event);
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty() && !self.is_waiting_for_pong
    }

    pub(super) fn next_output(&mut self) -> Option<Value> {
        self.output.pop_front()
    }

    /// Removes the events of the response that are not sent yet.
    pub(super) fn drop_output(&mut self, response_id: &str) {
        self.output.retain(|event| event["response_id"] != response_id);
    }

    pub(super) fn take(&self, found: impl Fn(&RealtimeFault) -> bool) -> Option<RealtimeFault> {
        self.script
            .change(|state| state.realtime.take(|fault| found(fault).then(|| fault.clone())))
    }

    pub(super) fn audio_ms(&self) -> u64 {
        self.script.state().realtime.audio_ms.unwrap_or(USUAL_AUDIO_MS)
    }

    /// Opens the record of a response.
    pub(super) fn open_served(&mut self, id: &str, used: Tokens) {
        self.script.change(|state| state.realtime.responses += 1);
        self.served = Some(self.script.open_served(Served {
            id: id.to_owned(),
            request: self.sequence,
            model: self.model.clone(),
            streamed: true,
            used,
            reported: None,
            end: End::Open,
        }));
    }

    /// Updates the record before an event is sent.
    pub(super) fn record(&mut self, event: &Value) {
        if event["type"] == "transcription.done" {
            self.end_utterance();
        }
        if event["type"] != "response.done" {
            return;
        }
        let Some(position) = self.served.take() else {
            return;
        };
        let usage = &event["response"]["usage"];
        let count = |key: &str| usage[key].as_u64().unwrap_or_default();
        self.script.change_served(position, |served| {
            served.end = End::Complete;
            if usage.is_object() {
                served.reported = Some(usage.to_string());
                served.used.prompt = count("input_tokens");
                served.used.completion = count("output_tokens");
                served.used.cached = usage["input_token_details"]["cached_tokens"]
                    .as_u64()
                    .unwrap_or_default();
            }
        });
    }

    /// Ends the record of the running response.
    pub(super) fn client_left(&mut self) {
        if let Some(position) = self.served.take() {
            self.script
                .change_served(position, |served| served.end = End::ClientGone);
        }
    }

    /// Executes an event of the client.
    pub(super) fn execute(&mut self, event: &Value) {
        if self.transcriber.is_some() {
            return self.transcribe(event);
        }
        let kind = event["type"].as_str().unwrap_or_default();
        let done = match kind {
            "session.update" => self.update(&event["session"]),
            "input_audio_buffer.append" => self.append(event),
            "input_audio_buffer.commit" => self.commit(),
            "conversation.item.create" => self.create(event),
            "conversation.item.delete" => self.delete(event),
            "conversation.item.truncate" => self.truncate(event),
            "response.create" => match self.answering.is_some() {
                true => Err(("conversation_already_has_active_response", "")),
                false => self
                    .check_response(&event["response"])
                    .map(|()| self.respond(&event["response"])),
            },
            "response.cancel" => self.cancel(),
            _ => Err(("invalid_value", "type")),
        };
        if let Err((code, param)) = done {
            self.push(
                json!({"type": "error", "error": {"type": "invalid_request_error", "code": code,
                "message": format!("Invalid event {kind}."), "param": param, "event_id": event["event_id"]}}),
            );
        }
    }

    fn update(&mut self, change: &Value) -> Result<(), Refusal> {
        if self.wire != RealtimeWire::Xai {
            if change["type"] != "realtime" {
                return Err(("missing_required_parameter", "session.type"));
            }
            for unknown in ["voice", "turn_detection", "temperature"] {
                if !change[unknown].is_null() {
                    return Err(("unknown_parameter", "session"));
                }
            }
        }
        let mut change = change.clone();
        let keeps = self.take(|fault| matches!(fault, RealtimeFault::KeepTurnDetection));
        if keeps.is_some() {
            remove(&mut change, "turn_detection");
            remove(&mut change["audio"]["input"], "turn_detection");
        }
        merge(&mut self.settings, &change);
        let session = self.settings.clone();
        self.push(json!({"type": "session.updated", "session": session}));
        Ok(())
    }

    fn detects_turns(&self) -> bool {
        let detection = match self.wire {
            RealtimeWire::Xai => &self.settings["turn_detection"],
            _ => &self.settings["audio"]["input"]["turn_detection"],
        };
        detection["type"].is_string()
    }

    fn append(&mut self, event: &Value) -> Result<(), Refusal> {
        let audio = event["audio"]
            .as_str()
            .and_then(|audio| STANDARD.decode(audio).ok());
        let audio = audio.ok_or(("invalid_value", "audio"))?;
        self.buffer.extend_from_slice(&audio);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Refusal> {
        let audio = std::mem::take(&mut self.buffer);
        let audio_ms = audio.len() as u64 / BYTES_PER_MS;
        if audio_ms < 100 {
            return Err(("input_audio_buffer_commit_empty", ""));
        }
        let id = self.id("item");
        let previous = self.items.last().map(|item| item.id.clone());
        let item = json!({"id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": null}]});
        self.push(
            json!({"type": "input_audio_buffer.committed", "previous_item_id": previous, "item_id": id}),
        );
        self.add(self.items.len(), id, item, audio_ms);
        // The server would answer a turn that it has detected itself.
        if self.detects_turns() && self.answering.is_none() {
            self.respond(&Value::Null);
        }
        Ok(())
    }

    /// Adds an item to the conversation and announces it.
    pub(super) fn add(&mut self, place: usize, id: String, item: Value, audio_ms: u64) {
        let previous = place.checked_sub(1).and_then(|place| self.items.get(place));
        let previous = previous.map(|item| item.id.clone());
        for kind in ["conversation.item.added", "conversation.item.done"] {
            self.push(json!({"type": kind, "previous_item_id": previous, "item": item}));
        }
        self.insert(place, id, item, audio_ms);
    }

    /// Adds an item without an announcement.
    pub(super) fn insert(&mut self, place: usize, id: String, item: Value, audio_ms: u64) {
        self.items.insert(place, Item::new(id, item, audio_ms));
    }

    fn position(&self, id: &Value) -> Option<usize> {
        self.items.iter().position(|item| *id == item.id)
    }

    fn create(&mut self, event: &Value) -> Result<(), Refusal> {
        let place = match &event["previous_item_id"] {
            Value::Null => self.items.len(),
            Value::String(root) if root == "root" => 0,
            id => {
                self.position(id)
                    .ok_or(("item_create_invalid_item_id", "previous_item_id"))?
                    + 1
            }
        };
        let mut item = event["item"].clone();
        self.check_item(&item)?;
        let id = match item["id"].as_str() {
            Some(id) if id.chars().count() > MAX_ID_CHARS => {
                return Err(("string_above_max_length", "item.id"));
            }
            Some(id) if self.items.iter().any(|item| item.id == id) => {
                return Err(("item_create_duplicate_item_id", "item.id"));
            }
            Some(id) => id.to_owned(),
            None => self.id("item"),
        };
        let other = self.take(|fault| matches!(fault, RealtimeFault::OtherItemId));
        let id = if other.is_some() { self.id("item") } else { id };
        item["id"] = json!(id);
        let audio_ms = audio_ms_of(&item);
        self.add(place, id, item, audio_ms);
        Ok(())
    }

    fn check_item(&self, item: &Value) -> Result<(), Refusal> {
        let call_id = item["call_id"].as_str();
        let is_own = |call_id: &str| self.items.iter().any(|item| item.item["call_id"] == call_id);
        if call_id.is_some_and(|call_id| call_id.chars().count() > MAX_ID_CHARS && !is_own(call_id)) {
            return Err(("string_above_max_length", "item.call_id"));
        }
        match item["type"].as_str() {
            Some("message") => {
                let part = match item["role"].as_str() {
                    Some("user") => ["input_text", "input_audio"],
                    Some("assistant") => ["output_text", "output_text"],
                    Some("system") => ["input_text", "input_text"],
                    _ => return Err(("invalid_value", "item.role")),
                };
                let mut parts = item["content"].as_array().into_iter().flatten();
                match parts.all(|found| part.iter().any(|kind| found["type"] == *kind)) {
                    true => Ok(()),
                    false => Err(("invalid_value", "item.content")),
                }
            }
            Some("function_call") if item["arguments"].is_string() && item["name"].is_string() => Ok(()),
            Some("function_call_output") if call_id.is_some_and(is_own) => Ok(()),
            Some("function_call_output") => Err(("invalid_tool_call_id", "item.call_id")),
            _ => Err(("invalid_value", "item.type")),
        }
    }

    fn delete(&mut self, event: &Value) -> Result<(), Refusal> {
        let place = self.position(&event["item_id"]);
        let place = place.ok_or(("item_delete_invalid_item_id", "item_id"))?;
        let item = self.items.remove(place);
        self.push(json!({"type": "conversation.item.deleted", "item_id": item.id}));
        Ok(())
    }

    fn truncate(&mut self, event: &Value) -> Result<(), Refusal> {
        let place = self.position(&event["item_id"]);
        let place = place.ok_or(("item_truncate_invalid_item_id", "item_id"))?;
        let end = event["audio_end_ms"]
            .as_u64()
            .ok_or(("invalid_value", "audio_end_ms"))?;
        let Some(item) = self.items.get_mut(place).filter(|item| item.audio_ms >= end) else {
            return Err(("invalid_value", "audio_end_ms"));
        };
        item.audio_ms = end;
        let id = item.id.clone();
        self.push(json!({"type": "conversation.item.truncated", "item_id": id, "content_index": 0, "audio_end_ms": end}));
        Ok(())
    }

    fn check_response(&self, response: &Value) -> Result<(), Refusal> {
        let is_too_large = response["max_output_tokens"]
            .as_u64()
            .is_some_and(|max| max > 4_096);
        if is_too_large && self.wire != RealtimeWire::Xai {
            return Err(("integer_above_max_value", "response.max_output_tokens"));
        }
        for element in response["input"].as_array().into_iter().flatten() {
            if element["type"] == "item_reference" {
                let known = self.position(&element["id"]);
                known.ok_or(("item_not_found", "response.input"))?;
            } else {
                self.check_item(element)?;
            }
        }
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), Refusal> {
        match self.answering.take() {
            Some(answering) => {
                self.finish(answering, true);
                Ok(())
            }
            None => Err(("response_cancel_not_active", "")),
        }
    }
}

/// Returns the duration of the audio in an item of the client.
pub(super) fn audio_ms_of(item: &Value) -> u64 {
    let parts = item["content"].as_array().into_iter().flatten();
    let audio = parts.filter_map(|part| STANDARD.decode(part["audio"].as_str()?).ok());
    audio.map(|audio| audio.len() as u64).sum::<u64>() / BYTES_PER_MS
}

fn remove(object: &mut Value, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(key);
    }
}

/// Replaces the members of an object by those of another one, also in objects within it.
fn merge(settings: &mut Value, change: &Value) {
    match (settings.as_object_mut(), change.as_object()) {
        (Some(settings), Some(change)) => {
            for (key, value) in change {
                merge(settings.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *settings = change.clone(),
    }
}
