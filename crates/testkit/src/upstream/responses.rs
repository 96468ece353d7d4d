//! The scripted answers in the Responses format: `POST …/responses`.

use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::completion::call_id;
use super::composed::{Choice, Composed};
use super::stream::Event;

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed) -> String {
    let mut response = response(composed, "completed");
    finish(&mut response, answer, composed);
    response.to_string()
}

/// Returns the response object before any output.
fn response(composed: &Composed, status: &str) -> Value {
    json!({
        "id": format!("resp_{}", composed.id),
        "object": "response",
        "created_at": composed.created,
        "completed_at": null,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "model": composed.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "service_tier": "default",
        "store": false,
        "temperature": 1.0,
        "top_p": 0.98,
        "usage": null,
        "metadata": {},
    })
}

fn finish(response: &mut Value, answer: &Answer, composed: &Composed) {
    let choice = &composed.choices[0];
    response["output"] = json!(items(choice, composed));
    match choice.finish_reason.as_str() {
        "length" => {
            response["status"] = json!("incomplete");
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        "content_filter" => {
            response["status"] = json!("incomplete");
            response["incomplete_details"] = json!({"reason": "content_filter"});
        }
        _ => response["completed_at"] = json!(composed.created + 1),
    }
    match usage(answer, composed) {
        Some(usage) => response["usage"] = usage,
        None => {
            if let Some(members) = response.as_object_mut() {
                members.remove("usage");
            }
        }
    }
}

/// Returns the encrypted content of the reasoning.
fn seal(composed: &Composed) -> String {
    format!("enc-{}", composed.id)
}

/// Returns the items of the answer.
fn items(choice: &Choice, composed: &Composed) -> Vec<Value> {
    let mut items = Vec::new();
    if !choice.reasoning.is_empty() {
        items.push(json!({
            "type": "reasoning",
            "id": format!("rs_{}", composed.id),
            "summary": [{"type": "summary_text", "text": choice.reasoning.concat()}],
            "encrypted_content": seal(composed),
        }));
    }
    let content = content(choice);
    if !content.is_empty() {
        items.push(json!({
            "type": "message",
            "id": format!("msg_{}", composed.id),
            "status": "completed",
            "role": "assistant",
            "content": content,
        }));
    }
    for (index, call) in choice.tool_calls.iter().enumerate() {
        items.push(json!({
            "type": "function_call",
            "id": format!("fc_{index}_{}", composed.id),
            "call_id": call_id(0, index),
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }));
    }
    items
}

fn content(choice: &Choice) -> Vec<Value> {
    let mut content = Vec::new();
    if !choice.text.is_empty() {
        content.push(json!({
            "type": "output_text", "text": choice.text.concat(), "annotations": [], "logprobs": [],
        }));
    }
    if !choice.refusal.is_empty() {
        content.push(json!({"type": "refusal", "refusal": choice.refusal.concat()}));
    }
    content
}

/// Returns the usage; `None` if the script omits it.
fn usage(answer: &Answer, composed: &Composed) -> Option<Value> {
    let tokens = composed.tokens;
    match &answer.usage {
        Usage::Missing => None,
        Usage::Null => Some(Value::Null),
        Usage::Raw(text) => serde_json::from_str(text).ok(),
        Usage::Counted | Usage::Fixed { .. } => Some(json!({
            "input_tokens": tokens.prompt,
            "input_tokens_details": {
                "cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write,
            },
            "output_tokens": tokens.completion,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.prompt.saturating_add(tokens.completion),
        })),
    }
}

/// Returns all events, from `response.created` to the event with the whole response.
pub(super) fn events(answer: &Answer, composed: &Composed) -> Vec<Event> {
    let mut writer = Writer::default();
    for kind in ["response.created", "response.in_progress"] {
        let response = response(composed, "in_progress");
        writer.push(json!({"type": kind, "response": response}), 0);
    }
    let choice = &composed.choices[0];
    for item in items(choice, composed) {
        writer.item(&item, choice);
    }
    let mut whole = response(composed, "completed");
    finish(&mut whole, answer, composed);
    let kind = format!("response.{}", whole["status"].as_str().unwrap_or_default());
    let report = whole
        .get("usage")
        .filter(|usage| !usage.is_null())
        .map(Value::to_string);
    writer.push(json!({"type": kind, "response": whole}), 0);
    if let Some(event) = writer.events.last_mut() {
        event.usage = report;
        event.content = false;
    }
    writer.events
}

/// Returns the delta that an endless stream repeats.
pub(super) fn filler(tokens_sent: u64) -> Event {
    let delta = json!({
        "type": "response.output_text.delta", "sequence_number": 99, "item_id": "msg_more", "output_index": 0,
        "content_index": 0, "delta": " more", "logprobs": [],
    });
    Event {
        data: delta.to_string(),
        tokens_sent: tokens_sent + 1,
        usage: None,
        content: true,
    }
}

#[derive(Default)]
struct Writer {
    events: Vec<Event>,
    tokens_sent: u64,
    items: u64,
}

impl Writer {
    /// Appends the events of one item, from its start to its end, with one delta for each token.
    fn item(&mut self, item: &Value, choice: &Choice) {
        let mut started = item.clone();
        for (name, nothing) in [
            ("summary", json!([])),
            ("content", json!([])),
            ("arguments", json!("")),
        ] {
            if started.get(name).is_some() {
                started[name] = nothing;
            }
        }
        // Providers add the encrypted content once the reasoning is done.
        if started.get("encrypted_content").is_some() {
            started["encrypted_content"] = json!("");
        }
        self.push(
            json!({"type": "response.output_item.added", "output_index": self.items, "item": started}),
            0,
        );
        match item["type"].as_str() {
            Some("reasoning") => {
                let part = json!({"type": "summary_text", "text": ""});
                self.of(
                    item,
                    "response.reasoning_summary_part.added",
                    json!({"summary_index": 0, "part": part}),
                    0,
                );
                for token in &choice.reasoning {
                    let delta = json!({"summary_index": 0, "delta": token});
                    self.of(item, "response.reasoning_summary_text.delta", delta, 1);
                }
                let text = json!({"summary_index": 0, "text": choice.reasoning.concat()});
                self.of(item, "response.reasoning_summary_text.done", text, 0);
                let part = json!({"summary_index": 0, "part": item["summary"][0]});
                self.of(item, "response.reasoning_summary_part.done", part, 0);
            }
            Some("message") => self.message(item, choice),
            _ => {
                let name = item["name"].as_str().unwrap_or_default();
                let call = choice
                    .tool_calls
                    .iter()
                    .find(|call| call.name == name && Some(&*call.arguments) == item["arguments"].as_str());
                for chunk in call.into_iter().flat_map(|call| call.chunks()) {
                    self.of(
                        item,
                        "response.function_call_arguments.delta",
                        json!({"delta": chunk}),
                        1,
                    );
                }
                let done = json!({"arguments": item["arguments"]});
                self.of(item, "response.function_call_arguments.done", done, 0);
            }
        }
        self.push(
            json!({"type": "response.output_item.done", "output_index": self.items, "item": item}),
            0,
        );
        self.items += 1;
    }

    fn message(&mut self, item: &Value, choice: &Choice) {
        let parts = item["content"].as_array().into_iter().flatten();
        for (index, part) in parts.enumerate() {
            let (tokens, name, empty) = match part["type"] == "refusal" {
                true => (
                    &choice.refusal,
                    "refusal",
                    json!({"type": "refusal", "refusal": ""}),
                ),
                false => (
                    &choice.text,
                    "output_text",
                    json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
                ),
            };
            let added = json!({"content_index": index, "part": empty});
            self.of(item, "response.content_part.added", added, 0);
            for token in tokens {
                let mut delta = json!({"content_index": index, "delta": token});
                if name == "output_text" {
                    delta["logprobs"] = json!([]);
                }
                self.of(item, &format!("response.{name}.delta"), delta, 1);
            }
            let mut done = json!({"content_index": index});
            match name {
                "refusal" => done["refusal"] = json!(tokens.concat()),
                _ => {
                    done["text"] = json!(tokens.concat());
                    done["logprobs"] = json!([]);
                }
            }
            self.of(item, &format!("response.{name}.done"), done, 0);
            let done = json!({"content_index": index, "part": part});
            self.of(item, "response.content_part.done", done, 0);
        }
    }

    /// Appends an event of an item.
    fn of(&mut self, item: &Value, kind: &str, members: Value, tokens: u64) {
        let mut event = json!({"type": kind, "item_id": item["id"], "output_index": self.items});
        for (name, value) in members.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        self.push(event, tokens);
    }

    fn push(&mut self, mut event: Value, tokens: u64) {
        event["sequence_number"] = json!(self.events.len());
        self.tokens_sent += tokens;
        self.events.push(Event {
            data: event.to_string(),
            tokens_sent: self.tokens_sent,
            usage: None,
            content: true,
        });
    }
}
