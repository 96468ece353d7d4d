//! Streamed responses: each event is an object like the complete response, with a part of the text.
//! The event `[DONE]` ends the stream.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::encode::{EncodedChoice, OBJECT, finish_to_wire};
use crate::openai_chat::encode_usage;

/// Encodes a streamed response for one caller. If the caller requested usage, a separate chunk
/// without choices contains the usage, and all other chunks have `usage: null`.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
}

impl StreamEncoder {
    /// Creates an encoder. `public_model` is the model name from the request.
    pub fn new(public_model: &str, include_usage: bool) -> Self {
        Self {
            id: String::new(),
            created: 0,
            model: public_model.to_owned(),
            include_usage,
        }
    }

    /// Encodes one event as a complete event of the format. `None` for the start event, for events
    /// that the format cannot express, and for usage that the caller did not request. `cost` is
    /// added to the usage event.
    pub fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes> {
        match event {
            StreamEvent::Start { id, created, .. } => {
                self.id.clone_from(id);
                self.created = *created;
                None
            }
            StreamEvent::Text { choice, text, .. } | StreamEvent::Refusal { choice, text } => {
                Some(self.text_chunk(*choice, text, None))
            }
            StreamEvent::Finish { choice, reason, .. } => {
                Some(self.text_chunk(*choice, "", Some(finish_to_wire(*reason))))
            }
            StreamEvent::Usage(usage) => {
                let usage = encode_usage(usage, cost);
                self.include_usage.then(|| self.chunk(Vec::new(), Some(usage)))
            }
            StreamEvent::Reasoning { .. }
            | StreamEvent::ReasoningSeal { .. }
            | StreamEvent::ToolCallStart { .. }
            | StreamEvent::ToolCallArguments { .. } => None,
        }
    }

    fn text_chunk(&self, index: u32, text: &str, finish_reason: Option<&'static str>) -> Bytes {
        let choice = EncodedChoice {
            text: text.to_owned(),
            index,
            logprobs: None,
            finish_reason,
        };
        self.chunk(vec![choice], None)
    }

    fn chunk(&self, choices: Vec<EncodedChoice>, usage: Option<Value>) -> Bytes {
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

#[derive(Serialize)]
struct Chunk<'e> {
    id: &'e str,
    object: &'static str,
    created: i64,
    model: &'e str,
    choices: Vec<EncodedChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

impl Chunk<'_> {
    fn event(&self) -> Bytes {
        let mut out = Vec::with_capacity(192);
        out.extend_from_slice(b"data: ");
        // Serialization of this type to memory cannot fail.
        let _ = serde_json::to_writer(&mut out, self);
        out.extend_from_slice(b"\n\n");
        Bytes::from(out)
    }
}
