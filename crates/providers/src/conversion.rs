//! Converts between a caller's format and the upstream's format, through the common form.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::unfold;
use tollgate_formats::{DecodeError, anthropic_messages, gemini, openai_chat, openai_responses, to_common};
use tollgate_types::generate::{GenerateRequest, GenerateResponse, Part, Seal};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Format, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, TextAnswer, TextCall, TextChunk, TextReply, TextStream, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

/// Returns the call's request in the common form, with the upstream's model name and the limits of
/// the call applied.
pub(crate) fn common_form(call: &TextCall) -> Result<GenerateRequest, UpstreamError> {
    let mut request = match &call.common {
        Some(request) => GenerateRequest::clone(request),
        None => to_common::decode_request(call.format, &call.body).map_err(|error| not_in_format(&error))?,
    };
    request.model = call.upstream_model.to_string();
    let smaller = |asked: u64| call.clamp_output.map_or(asked, |clamp| clamp.min(asked));
    request.max_tokens = request.max_tokens.map(smaller);
    request.stream = call.stream;
    Ok(request)
}

/// Whether upstream bytes of this format are sent to the caller unchanged.
pub(crate) fn relays(ctx: &CallContext, call: &TextCall, format: Format) -> bool {
    call.format == format && !ctx.inspected
}

/// Returns the error of a body that no API crate has validated and that does not match its format.
pub(crate) fn not_in_format(error: &DecodeError) -> UpstreamError {
    let detail = format!("the request does not match the format: {}", error.code.as_str());
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail);
    UpstreamError {
        param: error.param.clone(),
        ..rejected
    }
}

/// Returns a complete response in the common form, for a caller of another format. Sets the origin
/// of its reasoning to `origin`.
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
        capped_answers: 0,
        payload: Payload::Common(Box::new(answer)),
        outline: None,
        usage,
        output_bytes,
    })
}

/// A stream decoder for an upstream's format.
pub(crate) trait Decoder: Send + 'static {
    /// Decodes the data of one event to zero or more events of the common form.
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

/// Converts the events of an upstream's stream for a caller of another format.
pub(crate) fn stream(events: TextStream, decoder: impl Decoder, origin: &str) -> TextStream {
    let conversion = ConvertedStream {
        events,
        decoder,
        sealing: Sealing::new(origin),
        waiting: VecDeque::new(),
    };
    Box::pin(unfold(conversion, |mut conversion| async move {
        let item = conversion.next().await?;
        Some((item, conversion))
    }))
}

struct ConvertedStream<D> {
    events: TextStream,
    decoder: D,
    sealing: Sealing,
    waiting: VecDeque<TextChunk>,
}

impl<D: Decoder> ConvertedStream<D> {
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

    /// Converts one upstream chunk to one or more waiting chunks for the caller.
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

/// Ensures that each block of reasoning ends with a signature (`Seal`) that records this origin.
pub(crate) struct Sealing {
    origin: String,
    /// Whether reasoning text was emitted that no signature has followed yet.
    unsealed: bool,
}

impl Sealing {
    pub(crate) fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            unsealed: false,
        }
    }

    /// Sets the origin of existing signatures. After reasoning without a signature, adds an empty
    /// one before the next event that is not `Start` or `Usage`.
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

    /// Returns a signature without data, which records only the origin, for upstreams that do not
    /// sign reasoning.
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

/// Returns the data of a complete event, which ends with an empty line; `None` if the event has no
/// data.
fn data_of(event: &[u8]) -> Option<&[u8]> {
    let at = match event.starts_with(b"data: ") {
        true => 6,
        false => memchr::memmem::find(event, b"\ndata: ")? + 7,
    };
    event.get(at..)?.strip_suffix(b"\n\n")
}

fn unreadable() -> UpstreamError {
    UpstreamError::protocol("a stream event cannot be parsed")
}
