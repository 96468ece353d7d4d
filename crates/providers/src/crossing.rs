//! Between a caller's format and another one of the upstream: over the common form.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::unfold;
use tollgate_formats::{DecodeError, anthropic_messages, gemini, hub, openai_chat, openai_responses};
use tollgate_types::generate::{GenerateRequest, GenerateResponse, Part, Seal};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Format, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, TextAnswer, TextCall, TextChunk, TextReply, TextStream, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

/// The call's request in the common form, for this upstream's model.
pub(crate) fn common_form(call: &TextCall) -> Result<GenerateRequest, UpstreamError> {
    let mut request = match &call.common {
        Some(request) => GenerateRequest::clone(request),
        None => hub::decode_request(call.format, &call.body).map_err(|error| not_in_format(&error))?,
    };
    request.model = call.upstream_model.to_string();
    let smaller = |asked: u64| call.clamp_output.map_or(asked, |clamp| clamp.min(asked));
    request.max_tokens = request.max_tokens.map(smaller);
    request.stream = call.stream;
    Ok(request)
}

/// Whether what an upstream says in this format goes to the caller as it is.
pub(crate) fn relays(ctx: &CallContext, call: &TextCall, format: Format) -> bool {
    call.format == format && !ctx.inspected
}

/// A body that no room has validated.
pub(crate) fn not_in_format(error: &DecodeError) -> UpstreamError {
    let detail = format!("the request is not in the format: {}", error.code.as_str());
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail);
    UpstreamError {
        param: error.param.clone(),
        ..rejected
    }
}

/// A whole answer for a caller of another format. Its reasoning is marked as this origin's.
pub(crate) fn whole(
    mut answer: GenerateResponse,
    origin: &str,
    usage: Option<Usage>,
    output_bytes: u64,
) -> TextReply {
    for part in answer.choices.iter_mut().flat_map(|choice| &mut choice.parts) {
        if let Part::Reasoning(reasoning) = part {
            origin.clone_into(&mut reasoning.seal.get_or_insert_default().origin);
        }
    }
    TextReply::Whole(TextAnswer {
        payload: Payload::Common(Box::new(answer)),
        outline: None,
        usage,
        output_bytes,
    })
}

/// Reads the events of an upstream's format.
pub(crate) trait Decoder: Send + 'static {
    /// What the data of one event says.
    fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError>;
}

impl Decoder for openai_chat::StreamDecoder {
    fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        openai_chat::StreamDecoder::decode(self, data)
    }
}

impl Decoder for anthropic_messages::StreamDecoder {
    fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        anthropic_messages::StreamDecoder::decode(self, data)
    }
}

impl Decoder for openai_responses::StreamDecoder {
    fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        openai_responses::StreamDecoder::decode(self, data)
    }
}

impl Decoder for gemini::StreamDecoder {
    fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        gemini::StreamDecoder::decode(self, data)
    }
}

/// The events of a stream for a caller of another format. `events` are those of the upstream's own.
pub(crate) fn stream(events: TextStream, decoder: impl Decoder, origin: &str) -> TextStream {
    let crossing = Crossing {
        events,
        decoder,
        sealing: Sealing::new(origin),
        waiting: VecDeque::new(),
    };
    Box::pin(unfold(crossing, |mut crossing| async move {
        let item = crossing.next().await?;
        Some((item, crossing))
    }))
}

struct Crossing<D> {
    events: TextStream,
    decoder: D,
    sealing: Sealing,
    waiting: VecDeque<TextChunk>,
}

impl<D: Decoder> Crossing<D> {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        loop {
            if let Some(chunk) = self.waiting.pop_front() {
                return Some(Ok(chunk));
            }
            let chunk = match self.events.next().await? {
                Ok(chunk) => chunk,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.take(chunk) {
                return Some(Err(error));
            }
        }
    }

    /// One chunk of the upstream is none, one or several of the caller's.
    fn take(&mut self, chunk: TextChunk) -> Result<(), UpstreamError> {
        let TextChunk {
            kind,
            payload,
            mut usage,
            mut output_bytes,
        } = chunk;
        let data = match (&payload, kind) {
            (_, ChunkKind::End) | (None, _) => None,
            (Some(Payload::Raw(_, bytes)), _) => data_of(bytes),
            (Some(Payload::Common(_)), _) => None,
        };
        let events = match data {
            Some(data) => self.decoder.decode(data).map_err(|_| unreadable())?,
            None => Vec::new(),
        };
        for event in self.sealing.seal(events) {
            let is_report = matches!(event, StreamEvent::Usage(_));
            self.waiting.push_back(TextChunk {
                kind: if is_report { ChunkKind::Usage } else { kind },
                payload: Some(Payload::Common(Box::new(event))),
                usage: if is_report { usage.take() } else { None },
                output_bytes: std::mem::take(&mut output_bytes),
            });
        }
        if kind == ChunkKind::End || usage.is_some() || output_bytes > 0 || self.waiting.is_empty() {
            self.waiting.push_back(TextChunk {
                kind,
                payload: None,
                usage,
                output_bytes,
            });
        }
        Ok(())
    }
}

/// Every piece of reasoning ends with a seal of this origin.
pub(crate) struct Sealing {
    origin: String,
    /// Whether reasoning came that nobody has sealed yet.
    unsealed: bool,
}

impl Sealing {
    /// For what comes from there.
    pub(crate) fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            unsealed: false,
        }
    }

    /// The events with the origin in their seals, and with the seals that are missing.
    pub(crate) fn seal(&mut self, events: Vec<StreamEvent>) -> Vec<StreamEvent> {
        let mut out = Vec::with_capacity(events.len() + 1);
        for event in events {
            match event {
                StreamEvent::Reasoning { .. } => {
                    self.unsealed = true;
                    out.push(event);
                }
                StreamEvent::ReasoningSeal { choice, seal, hidden } => {
                    self.unsealed &= hidden;
                    out.push(StreamEvent::ReasoningSeal {
                        choice,
                        seal: Seal {
                            origin: self.origin.clone(),
                            ..seal
                        },
                        hidden,
                    });
                }
                StreamEvent::Start { .. } | StreamEvent::Usage(_) => out.push(event),
                _ => {
                    if std::mem::take(&mut self.unsealed) {
                        out.push(self.bare_seal());
                    }
                    out.push(event);
                }
            }
        }
        out
    }

    /// For upstreams that seal nothing: it says where the reasoning is from.
    fn bare_seal(&self) -> StreamEvent {
        StreamEvent::ReasoningSeal {
            choice: 0,
            seal: Seal {
                origin: self.origin.clone(),
                data: String::new(),
            },
            hidden: false,
        }
    }
}

/// The data of a whole event; nothing where there is none, as at `[DONE]`.
fn data_of(event: &[u8]) -> Option<&[u8]> {
    let at = match event.starts_with(b"data: ") {
        true => 6,
        false => memchr::memmem::find(event, b"\ndata: ")? + 7,
    };
    event.get(at..)?.strip_suffix(b"\n\n")
}

fn unreadable() -> UpstreamError {
    UpstreamError::protocol("an event of the stream cannot be read")
}
