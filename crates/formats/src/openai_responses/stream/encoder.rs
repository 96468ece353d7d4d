//! Encoding of stream events from the common form.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::{FinishReason, Reasoning, Seal, ToolCall};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, Usage};

use super::super::answer::started_call;
use super::super::echo::Echo;
use super::super::error_body::{error_event, failure};
use super::super::identity::Identity;
use super::super::object::{self, State};
use super::super::usage::encode_usage;
use super::encode_event;

/// Encodes a streamed response for one caller. Rules of the format: `response.created` and
/// `response.in_progress` come first; items are numbered from 0 and never overlap, and neither do
/// the parts of an item; one event with the complete response object ends the stream.
#[derive(Debug)]
pub struct StreamEncoder {
    identity: Identity,
    echo: Echo,
    show_reasoning: bool,
    /// Sequence number of the next event.
    sequence: u64,
    started: bool,
    open: Option<OpenItem>,
    /// Calls that started while another one was open: the deltas of several calls may be
    /// interleaved.
    pending: Vec<(u32, ToolCall)>,
    /// Finished items, for the final response object.
    output: Vec<Value>,
    finish: Option<FinishReason>,
    usage: Usage,
}

/// Output item whose end was not sent yet.
#[derive(Debug)]
enum OpenItem {
    Message {
        /// Finished parts, for the finished message item.
        parts: Vec<Value>,
        /// Part of the message whose end was not sent yet.
        part: Option<OpenPart>,
    },
    Reasoning(Reasoning),
    Call(u32, ToolCall),
}

#[derive(Debug)]
struct OpenPart {
    is_refusal: bool,
    text: String,
    logprobs: Vec<Value>,
}

impl OpenPart {
    fn new(is_refusal: bool) -> Self {
        Self {
            is_refusal,
            text: String::new(),
            logprobs: Vec::new(),
        }
    }

    fn to_wire(&self) -> Value {
        match self.is_refusal {
            true => object::refusal_part(&self.text),
            false => object::text_part(&self.text, &self.logprobs),
        }
    }
}

impl StreamEncoder {
    /// Creates an encoder. Without `show_reasoning`, only the encrypted content of reasoning is
    /// sent.
    pub fn new(identity: Identity, echo: Echo, show_reasoning: bool) -> Self {
        Self {
            identity,
            echo,
            show_reasoning,
            sequence: 0,
            started: false,
            open: None,
            pending: Vec::new(),
            output: Vec::new(),
            finish: None,
            usage: Usage::ZERO,
        }
    }

    /// Encodes one event as complete events of the format; empty if the data is sent later.
    pub fn encode(&mut self, event: &StreamEvent) -> Bytes {
        let mut out = Vec::new();
        self.start(&mut out);
        match event {
            StreamEvent::Start { .. } => {}
            StreamEvent::Text { text, logprobs, .. } => {
                let logprobs = logprobs
                    .as_ref()
                    .and_then(|logprobs| logprobs["content"].as_array());
                self.push_text(
                    text,
                    false,
                    logprobs.map(Vec::as_slice).unwrap_or_default(),
                    &mut out,
                );
            }
            StreamEvent::Refusal { text, .. } => self.push_text(text, true, &[], &mut out),
            StreamEvent::Reasoning { text, .. } => self.reason(text, &mut out),
            StreamEvent::ReasoningSeal { seal, hidden, .. } => self.seal(seal, *hidden, &mut out),
            StreamEvent::ToolCallStart { call, id, name, .. } => {
                let custom = self.echo.is_custom(name);
                self.call(*call, started_call(id, name, custom), &mut out);
            }
            StreamEvent::ToolCallArguments { call, arguments, .. } => {
                self.arguments(*call, arguments, &mut out);
            }
            StreamEvent::Finish { reason, .. } => self.finish = Some(*reason),
            StreamEvent::Usage(usage) => self.usage = *usage,
        }
        Bytes::from(out)
    }

    /// Returns the events that end the stream. `usage` replaces the usage of the stream. Must not
    /// be called after [`fail`](Self::fail).
    pub fn end(&mut self, usage: Option<&Usage>, cost: Option<Credits>, completed_at: i64) -> Bytes {
        let mut out = Vec::new();
        self.start(&mut out);
        let finish = self.finish.unwrap_or(FinishReason::Stop);
        self.close(object::status_of(finish), &mut out);
        let usage = encode_usage(usage.unwrap_or(&self.usage), cost);
        let state = State::ended(finish, usage, completed_at);
        let kind = match state.status {
            "incomplete" => "response.incomplete",
            _ => "response.completed",
        };
        self.lifecycle(kind, state, &mut out);
        Bytes::from(out)
    }

    /// Returns the events that report why the stream is aborted. They are the last events; open
    /// items remain unfinished.
    pub fn fail(&mut self, error: &Error, kind: &str) -> Bytes {
        let mut out = Vec::new();
        self.start(&mut out);
        self.push(error_event(error, kind), &mut out);
        let state = State {
            status: "failed",
            error: failure(error),
            ..State::started()
        };
        self.lifecycle("response.failed", state, &mut out);
        Bytes::from(out)
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        self.lifecycle("response.created", State::started(), out);
        self.lifecycle("response.in_progress", State::started(), out);
    }

    fn lifecycle(&mut self, kind: &str, state: State, out: &mut Vec<u8>) {
        let response = object::response(&self.identity, &self.echo, state, self.output.clone());
        self.push(json!({"type": kind, "response": response}), out);
    }

    fn push_text(&mut self, text: &str, is_refusal: bool, logprobs: &[Value], out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.open, Some(OpenItem::Message { .. })) {
            self.close("completed", out);
            self.add(object::message(&self.item_id("msg"), "in_progress", &[]), out);
            self.open = Some(OpenItem::Message {
                parts: Vec::new(),
                part: None,
            });
        }
        let is_other = |part: &OpenPart| part.is_refusal != is_refusal;
        if matches!(&self.open, Some(OpenItem::Message { part: Some(part), .. }) if is_other(part)) {
            self.close_part(out);
        }
        let (id, index) = (self.item_id("msg"), self.output.len());
        let Some(OpenItem::Message { parts, part }) = &mut self.open else {
            return;
        };
        let content_index = parts.len();
        let started = part.is_none().then(|| OpenPart::new(is_refusal).to_wire());
        let part = part.get_or_insert_with(|| OpenPart::new(is_refusal));
        part.text.push_str(text);
        part.logprobs.extend_from_slice(logprobs);
        if let Some(started) = started {
            let added = json!({
                "type": "response.content_part.added",
                "item_id": id,
                "output_index": index,
                "content_index": content_index,
                "part": started,
            });
            self.push(added, out);
        }
        let mut delta = json!({
            "type": if is_refusal { "response.refusal.delta" } else { "response.output_text.delta" },
            "item_id": id,
            "output_index": index,
            "content_index": content_index,
            "delta": text,
        });
        if !is_refusal {
            delta["logprobs"] = json!(logprobs);
        }
        self.push(delta, out);
    }

    fn reason(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.open_reasoning(Some(String::new()), out);
        let Some(OpenItem::Reasoning(open)) = &mut self.open else {
            return;
        };
        let so_far = open.text.get_or_insert_default();
        let is_new = so_far.is_empty();
        so_far.push_str(text);
        if !self.show_reasoning {
            return;
        }
        if is_new {
            let added = self.summary_event(
                "response.reasoning_summary_part.added",
                "part",
                object::summary_part(""),
            );
            self.push(added, out);
        }
        let delta = self.summary_event("response.reasoning_summary_text.delta", "delta", json!(text));
        self.push(delta, out);
    }

    fn seal(&mut self, seal: &Seal, hidden: bool, out: &mut Vec<u8>) {
        if hidden {
            self.close("completed", out);
        }
        self.open_reasoning((!hidden).then(String::new), out);
        if let Some(OpenItem::Reasoning(open)) = &mut self.open {
            open.seal = Some(seal.clone());
        }
        self.close("completed", out);
    }

    fn open_reasoning(&mut self, text: Option<String>, out: &mut Vec<u8>) {
        if matches!(self.open, Some(OpenItem::Reasoning(_))) {
            return;
        }
        self.close("completed", out);
        let started = Reasoning { text, seal: None };
        self.add(object::reasoning(&self.item_id("rs"), &started, false), out);
        self.open = Some(OpenItem::Reasoning(started));
    }

    fn summary_event(&self, kind: &str, name: &str, value: Value) -> Value {
        json!({
            "type": kind,
            "item_id": self.item_id("rs"),
            "output_index": self.output.len(),
            "summary_index": 0,
            name: value,
        })
    }

    fn call(&mut self, number: u32, call: ToolCall, out: &mut Vec<u8>) {
        if matches!(self.open, Some(OpenItem::Call(..))) {
            self.pending.push((number, call));
            return;
        }
        self.close("completed", out);
        self.open_call(number, call, out);
    }

    fn open_call(&mut self, number: u32, call: ToolCall, out: &mut Vec<u8>) {
        let id = self.item_id(object::call_prefix(call.custom));
        self.add(object::call(&id, "in_progress", &call), out);
        self.open = Some(OpenItem::Call(number, call));
    }

    fn arguments(&mut self, number: u32, arguments: &str, out: &mut Vec<u8>) {
        if arguments.is_empty() {
            return;
        }
        match &mut self.open {
            Some(OpenItem::Call(open, call)) if *open == number => {
                call.arguments.push_str(arguments);
                let custom = call.custom;
                let delta = self.call_event(custom, "delta", "delta", arguments);
                self.push(delta, out);
            }
            _ => {
                let pending = self.pending.iter_mut().find(|(pending, _)| *pending == number);
                if let Some((_, call)) = pending {
                    call.arguments.push_str(arguments);
                }
            }
        }
    }

    fn call_event(&self, custom: bool, step: &str, name: &str, value: &str) -> Value {
        let kind = match custom {
            true => format!("response.custom_tool_call_input.{step}"),
            false => format!("response.function_call_arguments.{step}"),
        };
        json!({
            "type": kind,
            "item_id": self.item_id(object::call_prefix(custom)),
            "output_index": self.output.len(),
            name: value,
        })
    }

    /// Closes the open item and sends the pending calls.
    fn close(&mut self, status: &str, out: &mut Vec<u8>) {
        self.close_item(status, out);
        for (number, mut call) in std::mem::take(&mut self.pending) {
            let arguments = std::mem::take(&mut call.arguments);
            self.open_call(number, call, out);
            self.arguments(number, &arguments, out);
            self.close_item(status, out);
        }
    }

    fn close_item(&mut self, status: &str, out: &mut Vec<u8>) {
        self.close_part(out);
        let item = match self.open.take() {
            None => return,
            Some(OpenItem::Message { parts, .. }) => object::message(&self.item_id("msg"), status, &parts),
            Some(OpenItem::Reasoning(open)) => {
                let text = open.text.as_deref().unwrap_or_default();
                if self.show_reasoning && !text.is_empty() {
                    let done =
                        self.summary_event("response.reasoning_summary_text.done", "text", json!(text));
                    self.push(done, out);
                    let part = object::summary_part(text);
                    let done = self.summary_event("response.reasoning_summary_part.done", "part", part);
                    self.push(done, out);
                }
                object::reasoning(&self.item_id("rs"), &open, self.show_reasoning)
            }
            Some(OpenItem::Call(_, call)) => {
                let name = if call.custom { "input" } else { "arguments" };
                let done = self.call_event(call.custom, "done", name, &call.arguments);
                self.push(done, out);
                object::call(&self.item_id(object::call_prefix(call.custom)), status, &call)
            }
        };
        let done =
            json!({"type": "response.output_item.done", "output_index": self.output.len(), "item": item});
        self.push(done, out);
        self.output.push(item);
    }

    /// Closes the open part of a message.
    fn close_part(&mut self, out: &mut Vec<u8>) {
        let (id, index) = (self.item_id("msg"), self.output.len());
        let Some(OpenItem::Message { parts, part }) = &mut self.open else {
            return;
        };
        let Some(done) = part.take() else { return };
        let (content_index, part) = (parts.len(), done.to_wire());
        parts.push(part.clone());
        let mut text_done = json!({
            "type": if done.is_refusal { "response.refusal.done" } else { "response.output_text.done" },
            "item_id": id,
            "output_index": index,
            "content_index": content_index,
        });
        if done.is_refusal {
            text_done["refusal"] = json!(done.text);
        } else {
            text_done["text"] = json!(done.text);
            text_done["logprobs"] = json!(done.logprobs);
        }
        self.push(text_done, out);
        let closed = json!({
            "type": "response.content_part.done",
            "item_id": id,
            "output_index": index,
            "content_index": content_index,
            "part": part,
        });
        self.push(closed, out);
    }

    fn add(&mut self, item: Value, out: &mut Vec<u8>) {
        let added =
            json!({"type": "response.output_item.added", "output_index": self.output.len(), "item": item});
        self.push(added, out);
    }

    fn item_id(&self, prefix: &str) -> String {
        self.identity.item_id(prefix, self.output.len())
    }

    fn push(&mut self, mut event: Value, out: &mut Vec<u8>) {
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        out.extend_from_slice(&encode_event(&event));
    }
}
