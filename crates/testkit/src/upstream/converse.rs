//! The scripted answers in Bedrock's format: `POST …/model/{model}/converse` and
//! `…/converse-stream`.

use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::chat_request::{ChatRequest, Shape};
use super::completion::call_id;
use super::composed::{Choice, Composed};
use super::event_stream;
use super::stream::Event;

/// Returns the model as written in the path, and whether the answer is streamed.
pub(super) fn target(path: &str) -> Option<(&str, bool)> {
    let (_, target) = path.split_once("/model/")?;
    match target.rsplit_once('/')? {
        (model, "converse") => Some((model, false)),
        (model, "converse-stream") => Some((model, true)),
        _ => None,
    }
}

/// Parses the request body of a call of `model`. The error is the text of the 400 that a provider
/// would send.
pub(super) fn parse(model: &str, stream: bool, body: &[u8]) -> Result<ChatRequest, String> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "Malformed input request".to_owned())?;
    let messages = value.get("messages").and_then(Value::as_array);
    let Some(messages) = messages.filter(|messages| !messages.is_empty()) else {
        return Err("A conversation must start with a user message.".to_owned());
    };
    let stops = value
        .pointer("/inferenceConfig/stopSequences")
        .and_then(Value::as_array);
    let schema = value
        .pointer("/outputConfig/textFormat/structure/jsonSchema/schema")
        .and_then(Value::as_str)
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let text_bytes: usize = messages.iter().map(|message| text_of(message).len()).sum();
    Ok(ChatRequest {
        shape: Shape::Converse,
        model: model.to_owned(),
        stream,
        choices: 1,
        max_tokens: value
            .pointer("/inferenceConfig/maxTokens")
            .and_then(Value::as_u64),
        stops: stops
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        response_format: schema
            .map(|schema| json!({"type": "json_schema", "json_schema": {"schema": schema}})),
        last_text: messages.last().map(text_of).unwrap_or_default(),
        prompt_tokens: (text_bytes as u64).div_ceil(4).max(1),
        ..ChatRequest::default()
    })
}

/// Returns the texts of a message, or of the last tool result in it.
fn text_of(holder: &Value) -> String {
    let blocks = || holder["content"].as_array().into_iter().flatten();
    match blocks().filter_map(|block| block.get("toolResult")).next_back() {
        Some(result) => text_of(result),
        None => blocks().filter_map(|block| block.get("text")?.as_str()).collect(),
    }
}

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed) -> String {
    let choice = &composed.choices[0];
    let mut content = Vec::new();
    if !choice.reasoning.is_empty() {
        let thought = json!({"text": choice.reasoning.concat(), "signature": signature(composed)});
        content.push(json!({"reasoningContent": {"reasoningText": thought}}));
    }
    let text = [choice.text.concat(), choice.refusal.concat()].concat();
    if !text.is_empty() {
        content.push(json!({ "text": text }));
    }
    for (index, call) in choice.tool_calls.iter().enumerate() {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        content.push(json!({"toolUse": {"toolUseId": call_id(0, index), "name": call.name, "input": input}}));
    }
    let mut object = json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop_reason(choice),
        "metrics": {"latencyMs": 5},
    });
    if let Some(usage) = usage(answer, composed) {
        object["usage"] = usage;
    }
    object.to_string()
}

/// Returns all events, from `messageStart` to `metadata`. Each is wrapped in an object with its
/// name.
pub(super) fn events(answer: &Answer, composed: &Composed) -> Vec<Event> {
    let mut writer = Writer::default();
    writer.push("messageStart", json!({"role": "assistant"}), 0);
    let choice = &composed.choices[0];
    if !choice.reasoning.is_empty() {
        for token in &choice.reasoning {
            writer.delta(json!({"reasoningContent": {"text": token}}), 1);
        }
        writer.delta(json!({"reasoningContent": {"signature": signature(composed)}}), 0);
        writer.stop();
    }
    // A text block has no start event.
    if !choice.text.is_empty() || !choice.refusal.is_empty() {
        for token in choice.text.iter().chain(&choice.refusal) {
            writer.delta(json!({ "text": token }), 1);
        }
        writer.stop();
    }
    for (index, call) in choice.tool_calls.iter().enumerate() {
        let start = json!({"toolUse": {"toolUseId": call_id(0, index), "name": call.name}});
        let block = writer.block;
        writer.push(
            "contentBlockStart",
            json!({"contentBlockIndex": block, "start": start}),
            0,
        );
        for chunk in call.chunks() {
            writer.delta(json!({"toolUse": {"input": chunk}}), 1);
        }
        writer.stop();
    }
    writer.push("messageStop", json!({"stopReason": stop_reason(choice)}), 0);
    let report = usage(answer, composed);
    let mut last = json!({"metrics": {"latencyMs": 5}});
    if let Some(usage) = &report {
        last["usage"] = usage.clone();
    }
    let stopped = writer.events.len() - 1;
    writer.push("metadata", last, 0);
    for event in &mut writer.events[stopped..] {
        event.content = false;
    }
    if let Some(event) = writer.events.last_mut() {
        event.usage = report.map(|usage| usage.to_string());
    }
    writer.events
}

/// Returns the delta that an endless stream repeats.
pub(super) fn filler(tokens_sent: u64) -> Event {
    let delta = json!({"contentBlockIndex": 0, "delta": {"text": " more"}});
    Event {
        data: json!({ "contentBlockDelta": delta }).to_string(),
        tokens_sent: tokens_sent + 1,
        usage: None,
        content: true,
    }
}

/// Returns the frame of an event. A payload without an event name is an error.
pub(super) fn frame(data: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    match value.as_object().and_then(|object| object.iter().next()) {
        Some((name, payload)) if name != "error" => event_stream::event(name, payload),
        _ => event_stream::exception("internalServerException"),
    }
}

fn signature(composed: &Composed) -> String {
    format!("sig-{}", composed.id)
}

fn stop_reason(choice: &Choice) -> &str {
    match choice.finish_reason.as_str() {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "content_filtered",
        other => other,
    }
}

/// Returns the usage; `None` if the script omits it.
fn usage(answer: &Answer, composed: &Composed) -> Option<Value> {
    let tokens = composed.tokens;
    match &answer.usage {
        Usage::Missing => None,
        Usage::Null => Some(Value::Null),
        Usage::Raw(text) => serde_json::from_str(text).ok(),
        Usage::Counted | Usage::Fixed { .. } => Some(json!({
            "inputTokens": tokens.prompt.saturating_sub(tokens.cached + tokens.cache_write),
            "cacheReadInputTokens": tokens.cached,
            "cacheWriteInputTokens": tokens.cache_write,
            "outputTokens": tokens.completion,
            "totalTokens": tokens.prompt.saturating_add(tokens.completion),
        })),
    }
}

#[derive(Default)]
struct Writer {
    events: Vec<Event>,
    tokens_sent: u64,
    block: u64,
}

impl Writer {
    fn delta(&mut self, delta: Value, tokens: u64) {
        let payload = json!({"contentBlockIndex": self.block, "delta": delta});
        self.push("contentBlockDelta", payload, tokens);
    }

    fn stop(&mut self) {
        self.push("contentBlockStop", json!({"contentBlockIndex": self.block}), 0);
        self.block += 1;
    }

    fn push(&mut self, name: &str, payload: Value, tokens: u64) {
        self.tokens_sent += tokens;
        self.events.push(Event {
            data: json!({ name: payload }).to_string(),
            tokens_sent: self.tokens_sent,
            usage: None,
            content: true,
        });
    }
}
