//! Encoding of stream events from the common form.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::super::encode::finish_to_wire;
use super::super::usage::encode_usage;
use super::super::wire::{CallDelta, Content, Delta, FunctionCall};
use crate::sse;

/// Encodes a streamed response for one caller. Rules of the format: the first chunk of a choice has
/// the role and an empty text; id, time and model are the same in all chunks; a choice ends with an
/// empty delta and its finish reason. If the caller requested usage, a separate chunk without
/// choices contains the usage, and all other chunks have `usage: null`.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
    /// Choices whose role chunk was sent.
    started_choices: Vec<u32>,
}

impl StreamEncoder {
    /// Creates an encoder. `public_model` is the model name from the request.
    pub fn new(public_model: &str, include_usage: bool) -> Self {
        Self {
            id: String::new(),
            created: 0,
            model: public_model.to_owned(),
            include_usage,
            started_choices: Vec::new(),
        }
    }

    /// Encodes one event as a complete event of the format, or as two at the start of a choice.
    /// `None` for signatures of reasoning, which the format cannot express, and for usage that the
    /// caller did not request. `cost` is added to the usage event.
    pub fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes> {
        let (choice, delta, logprobs) = match event {
            StreamEvent::Start { id, created, .. } => {
                self.id.clone_from(id);
                self.created = *created;
                return self.begin(0);
            }
            StreamEvent::Usage(usage) => {
                let usage = encode_usage(usage, cost);
                return self.include_usage.then(|| self.chunk(Vec::new(), Some(usage)));
            }
            // The format cannot express signatures of reasoning.
            StreamEvent::ReasoningSeal { .. } => return None,
            StreamEvent::Finish { choice, reason, .. } => {
                let reason = Some(finish_to_wire(*reason));
                return Some(self.content_chunk(*choice, Delta::default(), None, reason));
            }
            StreamEvent::Text {
                choice,
                text,
                logprobs,
            } => (*choice, text_delta(text), logprobs.clone()),
            StreamEvent::Reasoning { choice, text } => (*choice, reasoning_delta(text), None),
            StreamEvent::Refusal { choice, text } => (*choice, refusal_delta(text), None),
            StreamEvent::ToolCallStart {
                choice,
                call,
                id,
                name,
            } => (*choice, call_start_delta(*call, id, name), None),
            StreamEvent::ToolCallArguments {
                choice,
                call,
                arguments,
            } => (*choice, call_arguments_delta(*call, arguments), None),
        };
        Some(self.content_chunk(choice, delta, logprobs, None))
    }

    /// Returns the event that ends the stream. It must not be sent after an error.
    pub fn done() -> Bytes {
        Bytes::from_static(sse::DONE_EVENT)
    }

    fn begin(&mut self, choice: u32) -> Option<Bytes> {
        if self.started_choices.contains(&choice) {
            return None;
        }
        self.started_choices.push(choice);
        let delta = Delta {
            role: Some("assistant".to_owned()),
            ..text_delta("")
        };
        Some(self.chunk(vec![ChoiceChunk::new(choice, delta, None, None)], None))
    }

    fn content_chunk(
        &mut self,
        choice: u32,
        delta: Delta,
        logprobs: Option<Value>,
        finish_reason: Option<&'static str>,
    ) -> Bytes {
        let role = self.begin(choice);
        let content_chunk = self.chunk(
            vec![ChoiceChunk::new(choice, delta, logprobs, finish_reason)],
            None,
        );
        match role {
            Some(role) => [role, content_chunk].concat().into(),
            None => content_chunk,
        }
    }

    fn chunk(&self, choices: Vec<ChoiceChunk>, usage: Option<Value>) -> Bytes {
        Chunk {
            id: &self.id,
            object: OBJECT,
            created: self.created,
            model: &self.model,
            choices,
            usage: self.include_usage.then(|| usage.unwrap_or(Value::Null)),
        }
        .event()
    }
}

/// Encodes a usage event for a relayed stream if the caller requested usage and the upstream sent
/// none. `id` and `created` are those of the other chunks.
pub fn encode_usage_event(
    id: &str,
    created: i64,
    public_model: &str,
    usage: &Usage,
    cost: Option<Credits>,
) -> Bytes {
    Chunk {
        id,
        object: OBJECT,
        created,
        model: public_model,
        choices: Vec::new(),
        usage: Some(encode_usage(usage, cost)),
    }
    .event()
}

const OBJECT: &str = "chat.completion.chunk";

#[derive(Serialize)]
struct Chunk<'e> {
    id: &'e str,
    object: &'static str,
    created: i64,
    model: &'e str,
    choices: Vec<ChoiceChunk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

impl Chunk<'_> {
    fn event(&self) -> Bytes {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"data: ");
        // Serialization of this type to memory cannot fail.
        let _ = serde_json::to_writer(&mut out, self);
        out.extend_from_slice(b"\n\n");
        Bytes::from(out)
    }
}

#[derive(Serialize)]
struct ChoiceChunk {
    index: u32,
    delta: Delta,
    logprobs: Option<Value>,
    finish_reason: Option<&'static str>,
}

impl ChoiceChunk {
    fn new(index: u32, delta: Delta, logprobs: Option<Value>, finish_reason: Option<&'static str>) -> Self {
        Self {
            index,
            delta,
            logprobs,
            finish_reason,
        }
    }
}

fn text_delta(text: &str) -> Delta {
    Delta {
        content: Some(Content::Text(text.to_owned())),
        ..Delta::default()
    }
}

fn reasoning_delta(text: &str) -> Delta {
    Delta {
        reasoning_content: Some(text.to_owned()),
        ..Delta::default()
    }
}

fn refusal_delta(text: &str) -> Delta {
    Delta {
        refusal: Some(text.to_owned()),
        ..Delta::default()
    }
}

fn call_start_delta(call: u32, id: &str, name: &str) -> Delta {
    call_delta(CallDelta {
        index: Some(call),
        id: Some(id.to_owned()),
        kind: Some("function".to_owned()),
        function: Some(FunctionCall {
            name: Some(name.to_owned()),
            arguments: Some(String::new()),
        }),
        custom: None,
    })
}

fn call_arguments_delta(call: u32, arguments: &str) -> Delta {
    call_delta(CallDelta {
        index: Some(call),
        function: Some(FunctionCall {
            name: None,
            arguments: Some(arguments.to_owned()),
        }),
        ..CallDelta::default()
    })
}

fn call_delta(call: CallDelta) -> Delta {
    Delta {
        tool_calls: Some(vec![call]),
        ..Delta::default()
    }
}
