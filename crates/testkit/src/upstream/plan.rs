//! A reply computed to the last byte: its writes to the socket in order, and the end of the
//! connection.

use std::time::Duration;

use bytes::Bytes;

use super::chat_request::{ChatRequest, Shape};
use super::completion;
use super::composed::Composed;
use super::converse;
use super::delivery::{At, Framing, How};
use super::event_stream::EVENT_STREAM;
use super::gate::Gate;
use super::generate_content;
use super::gzip;
use super::messages;
use super::reply::{Content, Reply};
use super::responses;
use super::sse;
use super::stream::{self, Event};
use super::texts;
use super::writes::{cut, framed, joined, regrouped};

/// The writes of one reply.
pub(super) struct Plan {
    /// The response head, followed by the framed body.
    pub chunks: Vec<Chunk>,
    /// Chunk that is repeated without end after the other writes.
    pub forever: Option<Chunk>,
    pub ending: Ending,
    /// Whether the script breaks off the reply.
    pub cut: bool,
}

/// One write to the socket, with the conditions before it.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    pub gates: Vec<Gate>,
    pub wait: Duration,
    pub bytes: Bytes,
    /// Completion tokens sent so far, if the write contains any.
    pub tokens_sent: Option<u64>,
    /// The usage that the write reports.
    pub usage: Option<String>,
}

/// The ending of the connection after the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    KeepAlive,
    Close,
    Reset,
    Hang,
}

/// The writes of a body before they are framed.
type Body = Vec<Chunk>;

impl Plan {
    /// Computes the plan of a reply. `answered` is set if the request was a chat completion.
    pub fn new(reply: &Reply, answered: Option<(&ChatRequest, &Composed)>, sequence: u64) -> Self {
        let delivery = &reply.delivery;
        if let Content::Raw(bytes) = &reply.content {
            let chunk = Chunk {
                wait: delivery.delay,
                bytes: bytes.clone(),
                ..Chunk::default()
            };
            return Self {
                chunks: vec![chunk],
                forever: None,
                ending: Ending::Close,
                cut: false,
            };
        }
        let (mut body, forever, is_stream) = body(reply, answered);
        for (index, chunk) in body.iter_mut().enumerate() {
            if index > 0 {
                chunk.wait = delivery.pace;
            }
            chunk.gates.extend(gates(reply, Some(index)));
        }
        if delivery.gzip {
            body = vec![compressed(&body)];
        }
        let framing = delivery.framing.unwrap_or(if is_stream {
            Framing::Chunked
        } else {
            Framing::ContentLength
        });
        let bodiless = matches!(reply.status, 204 | 304);
        let length: usize = body.iter().map(|chunk| chunk.bytes.len()).sum();
        let promised = if matches!(delivery.cut, Some((At::End, _))) {
            length + 16
        } else {
            length
        };
        let head = Chunk {
            gates: gates(reply, None),
            wait: delivery.delay,
            bytes: head(
                reply,
                is_stream,
                answered.map(|(request, _)| request.shape),
                (!bodiless).then_some((framing, promised)),
                sequence,
            )
            .into(),
            ..Chunk::default()
        };
        let (head, body, whole) = cut(head, body, delivery.cut.map(|(at, _)| at));
        let mut chunks: Vec<Chunk> = head.into_iter().collect();
        if !bodiless {
            chunks.extend(body.into_iter().map(|chunk| framed(chunk, framing)));
            if whole && framing == Framing::Chunked && forever.is_none() {
                chunks.push(Chunk {
                    bytes: Bytes::from_static(b"0\r\n\r\n"),
                    ..Chunk::default()
                });
            }
        }
        let ending = match delivery.cut {
            Some((_, How::Close)) => Ending::Close,
            Some((_, How::Reset)) => Ending::Reset,
            Some((_, How::Hang)) => Ending::Hang,
            None if delivery.close || framing == Framing::UntilClose => Ending::Close,
            None => Ending::KeepAlive,
        };
        Self {
            chunks: regrouped(chunks, delivery.writes),
            forever: forever.map(|chunk| framed(chunk, framing)),
            ending,
            cut: delivery.cut.is_some() || delivery.error_after.is_some(),
        }
    }
}

/// Returns the chunks of the body, the endless chunk, and whether it is an event stream.
fn body(reply: &Reply, answered: Option<(&ChatRequest, &Composed)>) -> (Body, Option<Chunk>, bool) {
    let plain = |bytes: Bytes| {
        vec![Chunk {
            bytes,
            ..Chunk::default()
        }]
    };
    match (&reply.content, answered) {
        (Content::Answer(answer), Some((request, composed))) if request.stream => {
            let mut events = match request.shape {
                Shape::Chat => stream::events(answer, composed, request),
                Shape::Text => texts::events(stream::events(answer, composed, request)),
                Shape::Messages => messages::events(answer, composed),
                Shape::Responses => responses::events(answer, composed),
                Shape::Content => generate_content::events(answer, composed),
                Shape::Converse => converse::events(answer, composed),
            };
            // Generated content has no final event.
            if !reply.delivery.done && request.shape != Shape::Content {
                events.pop();
            }
            let mut forever = None;
            if reply.delivery.endless {
                events.retain(|event| event.content);
                let tokens_sent = composed.tokens.completion;
                let more = match request.shape {
                    Shape::Chat | Shape::Text => stream::filler(answer, composed, request, tokens_sent),
                    Shape::Messages => messages::filler(tokens_sent),
                    Shape::Responses => responses::filler(tokens_sent),
                    Shape::Content => generate_content::filler(composed, tokens_sent),
                    Shape::Converse => converse::filler(tokens_sent),
                };
                forever = Some(Chunk {
                    wait: reply.delivery.pace,
                    ..event_chunk(reply, request.shape, &more, events.len())
                });
            }
            if let Some((after, error)) = &reply.delivery.error_after {
                events.truncate(*after);
                let tokens_sent = events.last().map_or(0, |event| event.tokens_sent);
                events.push(Event {
                    data: error.to_string(),
                    tokens_sent,
                    usage: None,
                    content: false,
                });
            }
            (event_chunks(reply, request.shape, &events), forever, true)
        }
        (Content::Answer(answer), Some((request, composed))) => {
            if let Some((_, error)) = &reply.delivery.error_after {
                return (plain(error.to_string().into()), None, false);
            }
            if reply.delivery.endless {
                let blank = Chunk {
                    wait: reply.delivery.pace,
                    bytes: vec![b' '; 8_192].into(),
                    ..Chunk::default()
                };
                return (plain(Bytes::from_static(b"{\"id\":")), Some(blank), false);
            }
            let chunk = Chunk {
                bytes: match request.shape {
                    Shape::Chat => completion::body(answer, composed, request),
                    Shape::Text => texts::of_chat(&completion::body(answer, composed, request)),
                    Shape::Messages => messages::body(answer, composed),
                    Shape::Responses => responses::body(answer, composed),
                    Shape::Content => generate_content::body(answer, composed),
                    Shape::Converse => converse::body(answer, composed),
                }
                .into(),
                tokens_sent: Some(composed.tokens.completion),
                usage: composed.usage_text(&answer.usage, composed.tokens.completion),
                ..Chunk::default()
            };
            (vec![chunk], None, false)
        }
        (Content::Events(payloads), _) => {
            let events: Vec<Event> = payloads
                .iter()
                .map(|data| Event {
                    data: data.clone(),
                    tokens_sent: 0,
                    usage: None,
                    content: false,
                })
                .collect();
            (event_chunks(reply, Shape::Chat, &events), None, true)
        }
        (Content::Body(bytes), _) => (plain(bytes.clone()), None, false),
        // An answer to a request that is not a chat completion has no content.
        (Content::Answer(_) | Content::Raw(_), _) => (plain(Bytes::new()), None, false),
    }
}

fn event_chunks(reply: &Reply, shape: Shape, events: &[Event]) -> Body {
    events
        .iter()
        .enumerate()
        .map(|(number, event)| event_chunk(reply, shape, event, number))
        .collect()
}

fn event_chunk(reply: &Reply, shape: Shape, event: &Event, number: usize) -> Chunk {
    let name = || messages::name_of(&event.data);
    Chunk {
        bytes: match shape {
            Shape::Converse => converse::frame(&event.data),
            _ => sse::event(name().as_deref(), &event.data, number, reply.dress),
        }
        .into(),
        tokens_sent: Some(event.tokens_sent),
        usage: event.usage.clone(),
        ..Chunk::default()
    }
}

fn gates(reply: &Reply, position: Option<usize>) -> Vec<Gate> {
    let here = reply
        .delivery
        .gates
        .iter()
        .filter(|(gate_position, _)| *gate_position == position);
    here.map(|(_, gate)| gate.clone()).collect()
}

fn compressed(body: &Body) -> Chunk {
    let bytes: Vec<u8> = body
        .iter()
        .flat_map(|chunk| chunk.bytes.iter().copied())
        .collect();
    Chunk {
        bytes: gzip::wrap(&bytes).into(),
        ..joined(body)
    }
}

/// Returns the response head. `body` is the framing and the length; `None` for a status without a
/// body.
fn head(
    reply: &Reply,
    is_stream: bool,
    shape: Option<Shape>,
    body: Option<(Framing, usize)>,
    sequence: u64,
) -> String {
    let content_type = reply.content_type.as_deref();
    let usual = match shape {
        _ if !is_stream => "application/json",
        Some(Shape::Converse) => EVENT_STREAM,
        _ => "text/event-stream; charset=utf-8",
    };
    // The second line has internal headers of the provider, which a gateway must not forward.
    let mut head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\n\
         x-request-id: req_fake_{sequence}\r\nopenai-organization: org-fake\r\nopenai-processing-ms: 5\r\n\
         x-ratelimit-limit-requests: 10000\r\nx-ratelimit-remaining-requests: 9999\r\nserver: fake-upstream\r\n\
         set-cookie: __fake=1; path=/\r\n",
        status = reply.status,
        content_type = content_type.unwrap_or(usual),
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if reply.delivery.gzip {
        head.push_str("content-encoding: gzip\r\n");
    }
    match body {
        Some((Framing::Chunked, _)) => head.push_str("transfer-encoding: chunked\r\n"),
        Some((Framing::ContentLength, length)) => head.push_str(&format!("content-length: {length}\r\n")),
        Some((Framing::UntilClose, _)) | None => {}
    }
    if reply.delivery.close || matches!(body, Some((Framing::UntilClose, _))) {
        head.push_str("connection: close\r\n");
    }
    head.push_str("\r\n");
    head
}
