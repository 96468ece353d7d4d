//! `GET …/realtime`: a conversation over WebSocket, in the form of OpenAI or xAI. A text is
//! answered as in chat completions, a recording with its duration. The audio of an answer is a tone
//! that follows the whole transcript. Ten tokens are a second of input, twenty a second of output.
//!
//! With `intent=transcription`, or on the wire of vLLM, the connection transcribes: each half
//! second of audio is a word.

mod answer;
mod session;
mod transcription;

use std::collections::VecDeque;
use std::io;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::received::ReceivedRequest;
use super::reply::Reply;
use super::script::Script;
use session::Session;

/// Length of the tone of an answer, unless a test sets another one, in milliseconds.
const USUAL_AUDIO_MS: u64 = 1_000;

/// Form of the events and of the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RealtimeWire {
    /// OpenAI's protocol, also on Azure.
    #[default]
    OpenAi,
    /// OpenAI's protocol with the event names of its beta version.
    BetaNames,
    /// xAI's protocol: a flat session, long ids of calls, arguments of calls in one event, and
    /// usage without details.
    Xai,
    /// vLLM's protocol of live transcription.
    Vllm,
}

/// A fault of a conversation. Each one occurs once, at the first opportunity on any connection.
#[derive(Debug, Clone)]
pub enum RealtimeFault {
    /// The handshake is refused with this reply.
    Refuse(Box<Reply>),
    /// The connection closes with this code after the first event of this type.
    CloseAfter(&'static str, u16),
    /// The server sends nothing after the first event of this type; `""` is the handshake.
    HangAfter(&'static str),
    /// The next event of the client of this type is answered with an error.
    ErrorFor {
        /// Type of the client's event.
        event: &'static str,
        /// Type of the error.
        kind: &'static str,
        /// Code of the error.
        code: &'static str,
        /// Whether the error refers to the event.
        has_event_id: bool,
    },
    /// This text is sent before the first event of this type.
    Before(&'static str, String),
    /// The first event of this type is sent twice.
    Twice(&'static str),
    /// The first event of this type is omitted.
    Omit(&'static str),
    /// A ping is sent before the first event of this type, and the event follows the pong.
    PingBefore(&'static str),
    /// The response has no usage.
    NoUsage,
    /// The response stops after its first audio or text, and ends when it is cancelled.
    WaitForCancel,
    /// The response fails with this code.
    Fail(&'static str),
    /// The response ends early for this reason.
    Incomplete(&'static str),
    /// The server gives the next created item another id.
    OtherItemId,
    /// The server ignores the next change of the turn detection.
    KeepTurnDetection,
    /// The server starts a response after the next event of the client of this type.
    Unsolicited(&'static str),
    /// Chunks of the audio end within a sample.
    OddAudio,
}

/// An event of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct RealtimeReceived {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// The event with all its members, also the audio.
    pub event: Value,
}

impl RealtimeReceived {
    /// Returns the `type` of the event.
    pub fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }
}

/// The state of all conversations.
#[derive(Debug, Default)]
pub(super) struct RealtimeServer {
    pub wire: RealtimeWire,
    pub audio_ms: Option<u64>,
    pub faults: VecDeque<RealtimeFault>,
    pub received: Vec<RealtimeReceived>,
    /// Number of responses that were started, requested or not.
    pub responses: u64,
    /// Number of pongs.
    pub pongs: u64,
}

impl RealtimeServer {
    /// Removes and returns the first fault for which the function returns a value.
    fn take<T>(&mut self, found: impl Fn(&RealtimeFault) -> Option<T>) -> Option<T> {
        let (place, value) = self
            .faults
            .iter()
            .enumerate()
            .find_map(|(place, fault)| Some((place, found(fault)?)))?;
        self.faults.remove(place);
        Some(value)
    }

    /// Returns the reply with which the next handshake is refused.
    pub fn refusal(&mut self) -> Option<Reply> {
        self.take(|fault| match fault {
            RealtimeFault::Refuse(reply) => Some((**reply).clone()),
            _ => None,
        })
    }
}

/// Whether a request opens a conversation.
pub(super) fn is_handshake(request: &ReceivedRequest) -> bool {
    request.method == "GET"
        && request.bare_path().ends_with("/realtime")
        && request.header("sec-websocket-key").is_some()
}

type Socket<'s> = WebSocketStream<&'s mut TcpStream>;

/// Reason why a conversation ends.
enum Stop {
    ClientGone,
    Close(u16),
    Hang,
}

/// Holds a conversation to its end.
///
/// # Errors
/// The connection broke during the handshake.
pub(super) async fn serve(
    stream: &mut TcpStream,
    script: &Script,
    request: &ReceivedRequest,
) -> io::Result<()> {
    let key = request.header("sec-websocket-key").unwrap_or_default();
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    stream.write_all(head.as_bytes()).await?;
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let mut connection = Connection {
        script,
        number: request.connection,
        events: 0,
    };
    let ended = connection.run(&mut socket, request).await;
    match ended {
        Stop::ClientGone => {}
        Stop::Close(code) => {
            let frame = CloseFrame {
                code: CloseCode::from(code),
                reason: "closed_by_script".into(),
            };
            let _ = socket.close(Some(frame)).await;
            // The client answers with a close frame.
            while let Some(Ok(_)) = socket.next().await {}
        }
        Stop::Hang => while let Some(Ok(_)) = socket.next().await {},
    }
    Ok(())
}

struct Connection<'s> {
    script: &'s Script,
    number: u64,
    events: u64,
}

impl Connection<'_> {
    async fn run(&mut self, socket: &mut Socket<'_>, request: &ReceivedRequest) -> Stop {
        let server = |change: &mut dyn FnMut(&mut RealtimeServer)| {
            self.script.change(|state| change(&mut state.realtime));
        };
        let mut is_silent = false;
        let mut wire = RealtimeWire::default();
        server(&mut |server| {
            wire = server.wire;
            let found = server.take(|fault| match fault {
                RealtimeFault::HangAfter("") => Some(()),
                _ => None,
            });
            is_silent = found.is_some();
        });
        if is_silent {
            return Stop::Hang;
        }
        let model = request.path.split_once("model=").map_or("", |(_, rest)| rest);
        let model = model.split('&').next().unwrap_or_default();
        let transcribes = wire == RealtimeWire::Vllm || request.path.contains("intent=transcription");
        let mut session = Session::new(self.script, wire, model, request.sequence, transcribes);
        loop {
            // Messages of the client have precedence, so that a cancellation takes effect.
            let message = tokio::select! {
                biased;
                message = socket.next() => Some(message),
                () = std::future::ready(()), if session.has_output() => None,
            };
            let stop = match message {
                Some(Some(Ok(Message::Text(text)))) => {
                    self.receive(&mut session, text.as_str());
                    None
                }
                Some(Some(Ok(Message::Pong(_)))) => {
                    server_pong(self.script);
                    session.is_waiting_for_pong = false;
                    None
                }
                Some(Some(Ok(Message::Close(_)) | Err(_)) | None) => Some(Stop::ClientGone),
                Some(Some(Ok(_))) => None,
                None => {
                    let event = session.next_output();
                    match event {
                        Some(event) => self.send(socket, &mut session, event).await.err(),
                        None => None,
                    }
                }
            };
            if let Some(stop) = stop {
                session.client_left();
                return stop;
            }
        }
    }

    /// Records and executes an event of the client.
    fn receive(&mut self, session: &mut Session<'_>, text: &str) {
        let event: Value = serde_json::from_str(text).unwrap_or_default();
        let received = RealtimeReceived {
            connection: self.number,
            event: event.clone(),
        };
        let fault = self.script.change(|state| {
            if state.keep_requests {
                state.realtime.received.push(received);
            }
            let kind = event["type"].as_str().unwrap_or_default();
            state.realtime.take(|fault| match fault {
                RealtimeFault::ErrorFor {
                    event,
                    kind: error,
                    code,
                    has_event_id,
                } if *event == kind => Some((*error, *code, *has_event_id)),
                _ => None,
            })
        });
        match fault {
            Some((kind, code, has_event_id)) => {
                let event_id = if has_event_id {
                    event["event_id"].clone()
                } else {
                    Value::Null
                };
                session.push(json!({"type": "error", "error": {"type": kind, "code": code,
                    "message": "The script refuses this event.", "param": null, "event_id": event_id}}));
            }
            None => session.execute(&event),
        }
        let kind = event["type"].as_str().unwrap_or_default();
        let is_unsolicited = self.script.change(|state| {
            state.realtime.take(|fault| match fault {
                RealtimeFault::Unsolicited(event) if *event == kind => Some(()),
                _ => None,
            })
        });
        if is_unsolicited.is_some() {
            session.respond(&Value::Null);
        }
    }

    async fn send(
        &mut self,
        socket: &mut Socket<'_>,
        session: &mut Session<'_>,
        mut event: Value,
    ) -> Result<(), Stop> {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        self.events += 1;
        event["event_id"] = json!(format!("event_{}", self.events));
        let of_kind = |other: &str| other == kind;
        let take = |found: &dyn Fn(&RealtimeFault) -> bool| {
            self.script
                .change(|state| state.realtime.take(|fault| found(fault).then(|| fault.clone())))
        };
        if take(&|fault| matches!(fault, RealtimeFault::PingBefore(other) if of_kind(other))).is_some() {
            session.is_waiting_for_pong = true;
            session.push_first(event);
            return write(socket, Message::Ping("are you there".into())).await;
        }
        if take(&|fault| matches!(fault, RealtimeFault::Omit(other) if of_kind(other))).is_some() {
            return Ok(());
        }
        if let Some(RealtimeFault::Before(_, text)) =
            take(&|fault| matches!(fault, RealtimeFault::Before(other, _) if of_kind(other)))
        {
            write(socket, Message::text(text)).await?;
        }
        let copies = match take(&|fault| matches!(fault, RealtimeFault::Twice(other) if of_kind(other))) {
            Some(_) => 2,
            None => 1,
        };
        session.record(&event);
        for _ in 0..copies {
            write(socket, Message::text(event.to_string())).await?;
        }
        match take(&|fault| match fault {
            RealtimeFault::CloseAfter(other, _) | RealtimeFault::HangAfter(other) => of_kind(other),
            _ => false,
        }) {
            Some(RealtimeFault::CloseAfter(_, code)) => Err(Stop::Close(code)),
            Some(_) => Err(Stop::Hang),
            None => Ok(()),
        }
    }
}

fn server_pong(script: &Script) {
    script.change(|state| state.realtime.pongs += 1);
}

async fn write(socket: &mut Socket<'_>, message: Message) -> Result<(), Stop> {
    socket.send(message).await.map_err(|_| Stop::ClientGone)
}
