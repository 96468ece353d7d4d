//! Encoding of stream events from the common form.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::{FinishReason, Seal};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::super::answer::{finish_to_wire, message_id, stop_details};
use super::super::usage::encode_usage;
use super::super::wire::to_bytes;
use crate::reasoning_envelope;
use crate::sse;

/// Encodes a streamed response for one caller. Rules of the format: `message_start` comes first;
/// blocks are numbered from 0 and never overlap; the signature of reasoning is the last delta of
/// its block; `message_delta` with stop reason and usage, then `message_stop`, end the stream.
#[derive(Debug)]
pub struct StreamEncoder {
    model: String,
    show_reasoning: bool,
    started: bool,
    open: Option<OpenBlock>,
    /// Calls that started while another one was open: the deltas of calls may be interleaved,
    /// blocks may not.
    pending: Vec<PendingCall>,
    blocks: u32,
    refused: bool,
    finish: Option<(FinishReason, Option<String>)>,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBlock {
    Text,
    Reasoning,
    Call(u32),
}

#[derive(Debug)]
struct PendingCall {
    call: u32,
    block: Value,
    arguments: String,
}

impl StreamEncoder {
    /// Creates an encoder. `public_model` is the model name from the request. Without
    /// `show_reasoning`, reasoning has no text, only its signature or redacted data.
    pub fn new(public_model: &str, show_reasoning: bool) -> Self {
        Self {
            model: public_model.to_owned(),
            show_reasoning,
            started: false,
            open: None,
            pending: Vec::new(),
            blocks: 0,
            refused: false,
            finish: None,
            usage: Usage::ZERO,
        }
    }

    /// Encodes one event as complete events of the format. The result is empty for a finish reason
    /// or usage, which [`end`](Self::end) sends, and for a call that waits for the open call to
    /// end.
    pub fn encode(&mut self, event: &StreamEvent) -> Bytes {
        let mut out = Vec::new();
        match event {
            StreamEvent::Start { id, .. } => self.start(id, &mut out),
            StreamEvent::Text { text, .. } => self.text(text, &mut out),
            StreamEvent::Refusal { text, .. } => {
                self.refused = true;
                self.text(text, &mut out);
            }
            StreamEvent::Reasoning { text, .. } => {
                self.block(
                    OpenBlock::Reasoning,
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    &mut out,
                );
                if self.show_reasoning {
                    self.delta(json!({"type": "thinking_delta", "thinking": text}), &mut out);
                }
            }
            StreamEvent::ReasoningSeal { seal, hidden, .. } => self.seal(seal, *hidden, &mut out),
            StreamEvent::ToolCallStart { call, id, name, .. } => self.call(*call, id, name, &mut out),
            StreamEvent::ToolCallArguments { call, arguments, .. } => {
                self.arguments(*call, arguments, &mut out);
            }
            StreamEvent::Finish {
                reason,
                stop_sequence,
                ..
            } => self.finish = Some((*reason, stop_sequence.clone())),
            StreamEvent::Usage(usage) => self.usage = *usage,
        }
        Bytes::from(out)
    }

    /// Returns the events that end the stream, with the stop reason, the usage and `cost`. `usage`
    /// replaces the usage that the stream reported.
    pub fn end(&mut self, usage: Option<&Usage>, cost: Option<Credits>) -> Bytes {
        let mut out = Vec::new();
        self.start("", &mut out);
        self.close(&mut out);
        let (reason, sequence) = self.finish.take().unwrap_or((FinishReason::Stop, None));
        let mut delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": finish_to_wire(reason, self.refused), "stop_sequence": sequence},
            "usage": encode_usage(usage.unwrap_or(&self.usage), cost),
        });
        if let Some(details) = stop_details(reason) {
            delta["delta"]["stop_details"] = details;
        }
        push("message_delta", &delta, &mut out);
        push("message_stop", &json!({"type": "message_stop"}), &mut out);
        Bytes::from(out)
    }

    fn start(&mut self, id: &str, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        // The usage is unknown until the end, so all counts are zero.
        let message = json!({
            "id": message_id(id),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": encode_usage(&Usage::ZERO, None),
        });
        push(
            "message_start",
            &json!({"type": "message_start", "message": message}),
            out,
        );
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.block(OpenBlock::Text, json!({"type": "text", "text": ""}), out);
        self.delta(json!({"type": "text_delta", "text": text}), out);
    }

    fn seal(&mut self, seal: &Seal, hidden: bool, out: &mut Vec<u8>) {
        if hidden {
            self.close(out);
            let block = json!({"type": "redacted_thinking", "data": reasoning_envelope::wrap(seal)});
            self.block(OpenBlock::Reasoning, block, out);
        } else {
            self.block(
                OpenBlock::Reasoning,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                out,
            );
            self.delta(
                json!({"type": "signature_delta", "signature": reasoning_envelope::wrap(seal)}),
                out,
            );
        }
        self.close(out);
    }

    fn call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        match self.open {
            Some(OpenBlock::Call(_)) => self.pending.push(PendingCall {
                call,
                block,
                arguments: String::new(),
            }),
            _ => self.block(OpenBlock::Call(call), block, out),
        }
    }

    fn arguments(&mut self, call: u32, arguments: &str, out: &mut Vec<u8>) {
        if self.open == Some(OpenBlock::Call(call)) {
            self.delta(
                json!({"type": "input_json_delta", "partial_json": arguments}),
                out,
            );
        } else if let Some(pending) = self.pending.iter_mut().find(|pending| pending.call == call) {
            pending.arguments.push_str(arguments);
        }
    }

    /// Opens a block unless a block of this kind is already open. Closes any other open block
    /// first.
    fn block(&mut self, kind: OpenBlock, block: Value, out: &mut Vec<u8>) {
        self.start("", out);
        if self.open == Some(kind) {
            return;
        }
        self.close(out);
        let start = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        push("content_block_start", &start, out);
        self.open = Some(kind);
    }

    fn delta(&self, delta: Value, out: &mut Vec<u8>) {
        let event = json!({"type": "content_block_delta", "index": self.blocks, "delta": delta});
        push("content_block_delta", &event, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.close_block(out);
        for pending in std::mem::take(&mut self.pending) {
            self.block(OpenBlock::Call(pending.call), pending.block, out);
            if !pending.arguments.is_empty() {
                self.delta(
                    json!({"type": "input_json_delta", "partial_json": pending.arguments}),
                    out,
                );
            }
            self.close_block(out);
        }
    }

    fn close_block(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            let stop = json!({"type": "content_block_stop", "index": self.blocks});
            push("content_block_stop", &stop, out);
            self.blocks += 1;
        }
    }
}

fn push(name: &str, event: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&sse::write_event(Some(name.as_bytes()), &to_bytes(event)));
}
