//! The events of a response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::answer::{Answer, tokens_of};
use super::super::directive;
use super::super::reply::Content;
use super::super::served::Tokens;
use super::session::{Item, Session, audio_ms_of};
use super::{RealtimeFault, RealtimeWire};

/// Duration of the audio of one event, in milliseconds.
const CHUNK_MS: u64 = 100;
/// Samples of a millisecond of audio.
const SAMPLES_PER_MS: u64 = 24;

/// Tokens of the input by modality.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub text: u64,
    pub audio: u64,
}

/// The running response.
#[derive(Debug)]
pub(super) struct Answering {
    id: String,
    input: Counts,
    cached: Counts,
    /// Tokens of the whole output.
    output: Counts,
    is_outside: bool,
    /// Output items, with the durations of their audio.
    items: Vec<(Value, u64)>,
}

impl Session<'_> {
    /// Starts a response and queues its events.
    pub(super) fn respond(&mut self, params: &Value) {
        let outside: Option<Vec<Item>> = params["input"].as_array().map(|input| self.outside(input));
        let items = outside.clone().unwrap_or_else(|| self.items.clone());
        let audio = items.iter().filter(|item| item.item["role"] == "user");
        let instructions = self.settings["instructions"].as_str().unwrap_or_default();
        let characters: u64 = items.iter().map(|item| item.characters).sum();
        let input = Counts {
            text: (characters + instructions.chars().count() as u64).div_ceil(4),
            audio: audio.map(|item| item.audio_ms).sum::<u64>().div_ceil(100),
        };
        let cached = Counts {
            text: self.cached.text.min(input.text),
            audio: self.cached.audio.min(input.audio),
        };
        self.cached = input;
        let id = self.id("resp");
        self.open_served(
            &id,
            Tokens {
                prompt: input.text + input.audio,
                cached: cached.text + cached.audio,
                ..Tokens::default()
            },
        );
        let response = json!({"id": id, "object": "realtime.response", "status": "in_progress", "status_details": null,
            "output": [], "usage": null, "metadata": params["metadata"]});
        self.push(json!({"type": "response.created", "response": response}));
        let mut answering = Answering {
            id,
            input,
            cached,
            output: Counts::default(),
            is_outside: outside.is_some(),
            items: Vec::new(),
        };
        let text = last_text(&items);
        let directive = text
            .as_deref()
            .and_then(|text| directive::read(text).ok().flatten());
        let answer = match directive.map(|reply| reply.content) {
            Some(Content::Answer(answer)) => answer,
            _ => Answer::default(),
        };
        for call in &answer.tool_calls {
            self.call(&mut answering, &call.name, &call.arguments);
        }
        let words = match (&answer.text, text) {
            (Some(words), _) => words.clone(),
            (None, _) if !answer.tool_calls.is_empty() => Vec::new(),
            (None, Some(text)) => tokens_of(&format!("{}{text}", self.script.state().preface)),
            (None, None) => {
                let heard = items.last().map_or(0, |item| item.audio_ms);
                tokens_of(&format!("You spoke for {heard} ms."))
            }
        };
        if !words.is_empty() {
            let is_spoken = self.settings["output_modalities"] != json!(["text"]);
            self.message(
                &mut answering,
                &words,
                is_spoken,
                params["max_output_tokens"].as_u64(),
            );
        }
        let waits = self.take(|fault| matches!(fault, RealtimeFault::WaitForCancel));
        if waits.is_some() {
            self.keep_first_delta(&answering.id);
            self.answering = Some(answering);
        } else {
            self.finish(answering, false);
        }
    }

    /// Removes the events of the response after its first audio or text.
    fn keep_first_delta(&mut self, response_id: &str) {
        let mut rest = Vec::new();
        let mut has_delta = false;
        while let Some(event) = self.next_output() {
            let is_own = event["response_id"] == response_id;
            if is_own && has_delta {
                continue;
            }
            let kind = event["type"].as_str().unwrap_or_default();
            has_delta |= is_own && (kind.ends_with("audio.delta") || kind.ends_with("text.delta"));
            rest.push(event);
        }
        for event in rest.into_iter().rev() {
            self.push_first(event);
        }
    }

    /// Returns the items of a response outside the conversation.
    fn outside(&self, input: &[Value]) -> Vec<Item> {
        let mut found = Vec::new();
        for element in input {
            if element["type"] == "item_reference" {
                found.extend(self.items.iter().find(|item| element["id"] == item.id).cloned());
            } else {
                found.push(Item::new(String::new(), element.clone(), audio_ms_of(element)));
            }
        }
        found
    }

    fn place(answering: &Answering, item_id: &str) -> Value {
        json!({"response_id": answering.id, "item_id": item_id, "output_index": answering.items.len(), "content_index": 0})
    }

    fn output_event(&mut self, kind: &str, place: &Value, members: Value) {
        let mut event = place.clone();
        event["type"] = json!(kind);
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.push(event);
    }

    fn item_event(&mut self, kind: &str, answering: &Answering, item: &Value) {
        self.push(json!({"type": kind, "response_id": answering.id, "output_index": answering.items.len(), "item": item}));
        let kind = kind.replace("response.output_item", "conversation.item");
        if !answering.is_outside {
            self.push(
                json!({"type": kind, "previous_item_id": null, "item": item, "response_id": answering.id}),
            );
        }
    }

    fn call(&mut self, answering: &mut Answering, name: &str, arguments: &str) {
        let id = self.id("item");
        let call_id = match self.wire {
            RealtimeWire::Xai => format!("call-{:0>38}", self.id("x")),
            _ => self.id("call"),
        };
        let mut item = json!({"id": id, "object": "realtime.item", "type": "function_call", "status": "in_progress",
            "call_id": call_id, "name": name, "arguments": ""});
        let place = Self::place(answering, &id);
        let deltas = tokens_of(arguments);
        answering.output.text += deltas.len() as u64;
        if self.wire != RealtimeWire::Xai {
            self.item_event("response.output_item.added", answering, &item);
            for delta in deltas {
                let members = json!({"call_id": call_id, "delta": delta});
                self.output_event("response.function_call_arguments.delta", &place, members);
            }
        }
        let members = json!({"call_id": call_id, "name": name, "arguments": arguments});
        self.output_event("response.function_call_arguments.done", &place, members);
        item["arguments"] = json!(arguments);
        item["status"] = json!("completed");
        if self.wire != RealtimeWire::Xai {
            self.item_event("response.output_item.done", answering, &item);
        }
        answering.items.push((item, 0));
    }

    fn message(&mut self, answering: &mut Answering, words: &[String], is_spoken: bool, max: Option<u64>) {
        let id = self.id("item");
        let mut item = json!({"id": id, "object": "realtime.item", "type": "message", "status": "in_progress",
            "role": "assistant", "content": []});
        self.item_event("response.output_item.added", answering, &item);
        let place = Self::place(answering, &id);
        let text = words.concat();
        let (mut audio_ms, kind, part) = match is_spoken {
            true => (
                self.audio_ms(),
                "audio",
                json!({"type": "output_audio", "transcript": text}),
            ),
            false => (0, "text", json!({"type": "output_text", "text": text})),
        };
        if let Some(max) = max {
            audio_ms = audio_ms.min(max.saturating_mul(50));
        }
        let added = json!({"part": {"type": kind}});
        self.output_event("response.content_part.added", &place, added);
        let delta_kind = match is_spoken {
            true => "response.output_audio_transcript.delta",
            false => "response.output_text.delta",
        };
        for word in words {
            self.output_event(delta_kind, &place, json!({"delta": word}));
        }
        answering.output.text += words.len() as u64;
        answering.output.audio += audio_ms.div_ceil(50);
        for audio in self.tone(audio_ms) {
            self.output_event(
                "response.output_audio.delta",
                &place,
                json!({"delta": STANDARD.encode(audio)}),
            );
        }
        let done_kind = delta_kind.replace(".delta", ".done");
        self.output_event(&done_kind, &place, json!({"text": text, "transcript": text}));
        if is_spoken {
            self.output_event("response.output_audio.done", &place, json!({}));
        }
        self.output_event("response.content_part.done", &place, json!({"part": part}));
        item["content"] = json!([part]);
        item["status"] = json!("completed");
        self.item_event("response.output_item.done", answering, &item);
        answering.items.push((item, audio_ms));
    }

    /// Returns the chunks of a tone of 500 Hz.
    fn tone(&self, audio_ms: u64) -> Vec<Vec<u8>> {
        const WAVE: [i16; 48] = {
            let mut wave = [6_000_i16; 48];
            let mut place = 24;
            while place < 48 {
                wave[place] = -6_000;
                place += 1;
            }
            wave
        };
        let samples = WAVE.iter().cycle().take((audio_ms * SAMPLES_PER_MS) as usize);
        let bytes: Vec<u8> = samples.flat_map(|sample| sample.to_le_bytes()).collect();
        let odd = self.take(|fault| matches!(fault, RealtimeFault::OddAudio));
        let length = (CHUNK_MS * SAMPLES_PER_MS * 2) as usize + usize::from(odd.is_some());
        bytes.chunks(length).map(<[u8]>::to_vec).collect()
    }

    /// Queues the end of a response.
    pub(super) fn finish(&mut self, answering: Answering, is_cancelled: bool) {
        let failed = match is_cancelled {
            true => None,
            false => {
                self.take(|fault| matches!(fault, RealtimeFault::Fail(_) | RealtimeFault::Incomplete(_)))
            }
        };
        let (status, details) = match (&failed, is_cancelled) {
            (_, true) => (
                "cancelled",
                json!({"type": "cancelled", "reason": "client_cancelled"}),
            ),
            (Some(RealtimeFault::Fail(code)), _) => {
                let error = json!({"type": "server_error", "code": code, "message": "The script fails the response."});
                ("failed", json!({"type": "failed", "error": error}))
            }
            (Some(RealtimeFault::Incomplete(reason)), _) => {
                ("incomplete", json!({"type": "incomplete", "reason": reason}))
            }
            _ => ("completed", Value::Null),
        };
        let usage = match self.take(|fault| matches!(fault, RealtimeFault::NoUsage)) {
            Some(_) => Value::Null,
            None => self.usage(&answering, is_cancelled),
        };
        let items: Vec<&Value> = answering.items.iter().map(|(item, _)| item).collect();
        let response = json!({"id": answering.id, "object": "realtime.response", "status": status,
            "status_details": details, "output": items, "usage": usage});
        if is_cancelled {
            self.drop_output(&answering.id);
        }
        self.push(json!({"type": "response.done", "response": response}));
        let limit = json!({"name": "tokens", "limit": 100_000, "remaining": 99_000, "reset_seconds": 0.5});
        self.push(json!({"type": "rate_limits.updated", "rate_limits": [limit]}));
        if !answering.is_outside {
            for (item, audio_ms) in answering.items {
                let id = item["id"].as_str().unwrap_or_default().to_owned();
                self.insert(self.items.len(), id, item, audio_ms);
            }
        }
    }

    fn usage(&self, answering: &Answering, is_cancelled: bool) -> Value {
        let Answering { input, cached, .. } = answering;
        // A cancelled response has generated one second of audio more than it sent.
        let output = match is_cancelled {
            true => Counts {
                text: answering.output.text,
                audio: 22.min(answering.output.audio),
            },
            false => answering.output,
        };
        let (total_input, total_output) = (input.text + input.audio, output.text + output.audio);
        let mut usage = json!({"total_tokens": total_input + total_output, "input_tokens": total_input,
            "output_tokens": total_output});
        if self.wire == RealtimeWire::Xai {
            return usage;
        }
        usage["input_token_details"] = json!({"text_tokens": input.text, "audio_tokens": input.audio,
            "image_tokens": 0, "cached_tokens": cached.text + cached.audio,
            "cached_tokens_details": {"text_tokens": cached.text, "audio_tokens": cached.audio, "image_tokens": 0}});
        usage["output_token_details"] = json!({"text_tokens": output.text, "audio_tokens": output.audio});
        usage
    }
}

/// Returns the text of the last item of the user, or the output of the last function; `None` if the
/// last such item is a recording.
fn last_text(items: &[Item]) -> Option<String> {
    let is_input = |item: &&Item| item.item["role"] == "user" || item.item["output"].is_string();
    let item = &items.iter().rev().find(is_input)?.item;
    if let Some(output) = item["output"].as_str() {
        return Some(output.to_owned());
    }
    let parts = item["content"].as_array()?;
    parts
        .iter()
        .find_map(|part| part["text"].as_str())
        .map(str::to_owned)
}
