//! The scripted answers in the Messages format: `POST …/messages`.

use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::completion::call_id;
use super::composed::{Choice, Composed};
use super::stream::Event;

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed) -> String {
    let choice = &composed.choices[0];
    let mut content = Vec::new();
    if !choice.reasoning.is_empty() {
        content.push(json!({
            "type": "thinking", "thinking": choice.reasoning.concat(), "signature": signature(composed),
        }));
    }
    let text = [choice.text.concat(), choice.refusal.concat()].concat();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    for (index, call) in choice.tool_calls.iter().enumerate() {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        content.push(json!({
            "type": "tool_use", "id": call_id(0, index), "name": call.name, "input": input,
        }));
    }
    let mut object = json!({
        "id": message_id(composed),
        "type": "message",
        "role": "assistant",
        "model": composed.model,
        "content": content,
        "stop_reason": stop_reason(choice),
        "stop_sequence": null,
    });
    if let Some(usage) = usage(answer, composed, composed.tokens.completion) {
        object["usage"] = usage;
    }
    object.to_string()
}

/// Returns the signature of the reasoning.
fn signature(composed: &Composed) -> String {
    format!("sig-{}", composed.id)
}

fn message_id(composed: &Composed) -> String {
    format!("msg_{}", composed.id)
}

fn stop_reason(choice: &Choice) -> &str {
    match choice.finish_reason.as_str() {
        "stop" if !choice.refusal.is_empty() => "refusal",
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        other => other,
    }
}

/// Returns the usage with `completion` tokens so far; `None` if the script omits it.
fn usage(answer: &Answer, composed: &Composed, completion: u64) -> Option<Value> {
    let tokens = composed.tokens;
    match &answer.usage {
        Usage::Missing => None,
        Usage::Null => Some(Value::Null),
        Usage::Raw(text) => serde_json::from_str(text).ok(),
        Usage::Counted | Usage::Fixed { .. } => Some(json!({
            "input_tokens": tokens.prompt.saturating_sub(tokens.cached + tokens.cache_write),
            "cache_creation_input_tokens": tokens.cache_write,
            "cache_read_input_tokens": tokens.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"thinking_tokens": tokens.reasoning.min(completion)},
            "service_tier": "standard",
        })),
    }
}

/// Returns all events, from `message_start` to `message_stop`.
pub(super) fn events(answer: &Answer, composed: &Composed) -> Vec<Event> {
    let mut writer = Writer {
        events: Vec::new(),
        tokens_sent: 0,
        block: 0,
    };
    let mut message = json!({
        "id": message_id(composed), "type": "message", "role": "assistant", "model": composed.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if let Some(usage) = usage(answer, composed, 1) {
        message["usage"] = usage;
    }
    writer.push(json!({"type": "message_start", "message": message}), 0);
    let choice = &composed.choices[0];
    writer.reasoning(choice, &signature(composed));
    let text: Vec<&String> = choice.text.iter().chain(&choice.refusal).collect();
    if !text.is_empty() {
        writer.start(json!({"type": "text", "text": ""}));
        for token in text {
            writer.delta(json!({"type": "text_delta", "text": token}), 1);
        }
        writer.stop();
    }
    for (index, call) in choice.tool_calls.iter().enumerate() {
        writer.start(json!({"type": "tool_use", "id": call_id(0, index), "name": call.name, "input": {}}));
        for chunk in call.chunks() {
            writer.delta(json!({"type": "input_json_delta", "partial_json": chunk}), 1);
        }
        writer.stop();
    }
    let total = composed.tokens.completion;
    let mut last = json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(choice), "stop_sequence": null},
    });
    let report = usage(answer, composed, total);
    if let Some(usage) = &report {
        last["usage"] = usage.clone();
    }
    writer.push(last, 0);
    if let Some(event) = writer.events.last_mut() {
        event.usage = report.map(|usage| usage.to_string());
        event.content = false;
    }
    writer.push(json!({"type": "message_stop"}), 0);
    if let Some(event) = writer.events.last_mut() {
        event.content = false;
    }
    writer.events
}

/// Returns the delta that an endless stream repeats.
pub(super) fn filler(tokens_sent: u64) -> Event {
    let delta = json!({"type": "text_delta", "text": " more"});
    Event {
        data: json!({"type": "content_block_delta", "index": 0, "delta": delta}).to_string(),
        tokens_sent: tokens_sent + 1,
        usage: None,
        content: true,
    }
}

/// Returns the name of an event, which is its type.
pub(super) fn name_of(data: &str) -> Option<String> {
    let event: Value = serde_json::from_str(data).ok()?;
    Some(event.get("type")?.as_str()?.to_owned())
}

struct Writer {
    events: Vec<Event>,
    tokens_sent: u64,
    block: u64,
}

impl Writer {
    fn reasoning(&mut self, choice: &Choice, signature: &str) {
        if choice.reasoning.is_empty() {
            return;
        }
        self.start(json!({"type": "thinking", "thinking": "", "signature": ""}));
        for token in &choice.reasoning {
            self.delta(json!({"type": "thinking_delta", "thinking": token}), 1);
        }
        self.delta(json!({"type": "signature_delta", "signature": signature}), 0);
        self.stop();
    }

    fn start(&mut self, block: Value) {
        let event = json!({"type": "content_block_start", "index": self.block, "content_block": block});
        self.push(event, 0);
        // Providers send a ping early in every stream.
        if self.block == 0 {
            self.push(json!({"type": "ping"}), 0);
        }
    }

    fn delta(&mut self, delta: Value, tokens: u64) {
        let event = json!({"type": "content_block_delta", "index": self.block, "delta": delta});
        self.push(event, tokens);
    }

    fn stop(&mut self) {
        self.push(json!({"type": "content_block_stop", "index": self.block}), 0);
        self.block += 1;
    }

    fn push(&mut self, event: Value, tokens: u64) {
        self.tokens_sent += tokens;
        self.events.push(Event {
            data: event.to_string(),
            tokens_sent: self.tokens_sent,
            usage: None,
            content: true,
        });
    }
}
