//! A client of realtime sessions, and the audio that it sends.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tollgate_testkit::gateway::Gateway;

use super::{SPEECH, VOICE};
use crate::scene::{Scene, with};

/// Maximum wait for an event. It ends hung tests; it does not measure speed.
const DEADLINE: Duration = Duration::from_mins(1);
/// Size of a second of PCM, in bytes.
pub const SECOND: usize = 48_000;
/// Size of 100 ms of PCM, in bytes.
pub const CHUNK: usize = SECOND / 10;

/// Request for a session.
#[derive(Clone)]
pub struct Handshake {
    address: SocketAddr,
    query: String,
    headers: Vec<(HeaderName, String)>,
}

/// HTTP response to a refused handshake.
#[derive(Debug)]
pub struct Refused {
    pub status: u16,
    pub body: Value,
}

impl Handshake {
    /// Creates a request with this query and without a key.
    pub fn anonymous(scene: &Scene, query: &str) -> Self {
        Self {
            address: scene.gateway.address(),
            query: query.to_owned(),
            headers: Vec::new(),
        }
    }

    /// Creates a request with this query and the scene's key.
    pub fn new(scene: &Scene, query: &str) -> Self {
        Self::with_key(scene, query, &scene.key.secret)
    }

    /// Creates a request with this query and key.
    pub fn with_key(scene: &Scene, query: &str, key: &str) -> Self {
        Self::anonymous(scene, query).header("authorization", format!("Bearer {key}"))
    }

    /// Sends the request to another node.
    #[must_use]
    pub fn at(mut self, node: &Gateway) -> Self {
        self.address = node.address();
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((HeaderName::from_static(name), value.into()));
        self
    }

    /// Sends the request.
    pub async fn open(self) -> Result<Session, Refused> {
        let url = format!("ws://{}/v1/realtime{}", self.address, self.query);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in self.headers {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match client_async(request, stream).await {
            Ok((socket, response)) => {
                let id = response.headers().get("x-request-id").unwrap();
                Ok(Session {
                    request_id: id.to_str().unwrap().to_owned(),
                    protocol: response
                        .headers()
                        .get("sec-websocket-protocol")
                        .map(|protocol| protocol.to_str().unwrap().to_owned()),
                    socket,
                    log: Vec::new(),
                })
            }
            Err(tungstenite::Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                Err(Refused {
                    status: response.status().as_u16(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                })
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Refused {
    /// Returns the status, the code and the parameter.
    pub fn parts(&self) -> (u16, &str, Option<&str>) {
        let error = &self.body["error"];
        assert!(
            error["message"].is_string() && error["type"].is_string(),
            "{self:?}"
        );
        (
            self.status,
            error["code"].as_str().unwrap(),
            error["param"].as_str(),
        )
    }
}

/// An open session.
pub struct Session {
    /// The request id of the handshake.
    pub request_id: String,
    /// The subprotocol that the gateway selected.
    pub protocol: Option<String>,
    socket: WebSocketStream<TcpStream>,
    /// All events so far.
    log: Vec<Value>,
}

impl Session {
    /// Opens a session of the simulator's voice model, and reads `session.created`.
    pub async fn voice(scene: &Scene) -> Self {
        Self::open(Handshake::new(scene, &format!("?model={VOICE}"))).await
    }

    /// Opens a session of the simulator's voice model with these session settings.
    pub async fn voice_with(scene: &Scene, session: Value) -> Self {
        let mut opened = Self::voice(scene).await;
        opened.update(session).await;
        opened
    }

    /// Opens a session and reads its first event, in the GA dialect.
    pub async fn open(handshake: Handshake) -> Self {
        let mut session = handshake.open().await.unwrap();
        let created = session.event().await;
        assert_eq!(created["type"], "session.created", "{created}");
        session
    }

    /// Changes the session. Returns the new one.
    pub async fn update(&mut self, session: Value) -> Value {
        self.send(&json!({"type": "session.update", "session": session}))
            .await;
        self.until("session.updated").await["session"].clone()
    }

    pub async fn send(&mut self, event: &Value) {
        self.send_text(event.to_string()).await;
    }

    /// Sends a text, valid or not.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.message(Message::text(text.into())).await;
    }

    /// Sends a message of any kind.
    pub async fn message(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Returns the next event.
    pub async fn event(&mut self) -> Value {
        match self.receive().await {
            Ok(event) => event,
            Err(close) => panic!(
                "the session was closed: {close:?}; events: {:#?}",
                self.short_log()
            ),
        }
    }

    /// Returns the next event, or `None` if none arrives in this time.
    pub async fn event_within(&mut self, wait: Duration) -> Option<Value> {
        timeout(wait, self.event()).await.ok()
    }

    /// Reads events up to one of this type.
    ///
    /// # Panics
    /// If another event is an error.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().await;
            if event["type"] == kind {
                return event;
            }
            assert_ne!(event["type"], "error", "before {kind}: {event}");
        }
    }

    /// Reads events up to the close frame. Returns its code and the events before it.
    pub async fn closed(&mut self) -> (u16, Vec<Value>) {
        let mut events = Vec::new();
        loop {
            match self.receive().await {
                Ok(event) => events.push(event),
                Err(code) => {
                    return (
                        code.unwrap_or_else(|| panic!("no close frame: {events:?}")),
                        events,
                    );
                }
            }
        }
    }

    /// Returns the events that the gateway has sent for all messages so far.
    pub async fn pending(&mut self) -> Vec<Value> {
        let from = self.log.len();
        self.send(&json!({"type": "session.update", "session": {}})).await;
        loop {
            if self.event().await["type"] == "session.updated" {
                return self.log[from..self.log.len() - 1].to_vec();
            }
        }
    }

    /// Closes the session and waits for its end.
    pub async fn close(mut self) {
        self.socket.close(None).await.unwrap();
        while self.socket.next().await.is_some_and(|message| message.is_ok()) {}
    }

    /// Returns the next event, or the code of the close frame.
    async fn receive(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let received = timeout(DEADLINE, self.socket.next()).await;
            let received =
                received.unwrap_or_else(|_| panic!("no event in time after {:#?}", self.short_log()));
            match received {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).unwrap();
                    assert!(
                        event["event_id"]
                            .as_str()
                            .is_some_and(|id| id.starts_with("event_")),
                        "{event}"
                    );
                    self.log.push(event.clone());
                    return Ok(event);
                }
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Returns the number of events so far.
    pub fn logged(&self) -> usize {
        self.log.len()
    }

    /// Drops the events so far, which tests of many responses do not need.
    pub fn forget(&mut self) {
        self.log.clear();
    }

    fn short_log(&self) -> Vec<String> {
        let recent = self.log.len().saturating_sub(40);
        let texts = self.log[recent..].iter().map(|event| {
            let text = event.to_string();
            text.chars().take(300).collect()
        });
        texts.collect()
    }
}

/// Items and responses.
impl Session {
    /// Creates an item at the end of the conversation. Returns it.
    pub async fn create_item(&mut self, item: Value) -> Value {
        self.send(&json!({"type": "conversation.item.create", "item": item}))
            .await;
        self.until("conversation.item.done").await["item"].clone()
    }

    /// Creates a message of the user.
    pub async fn write(&mut self, text: &str) -> Value {
        self.create_item(message(text)).await
    }

    /// Returns the item with this id.
    pub async fn retrieve(&mut self, id: &Value) -> Value {
        self.send(&json!({"type": "conversation.item.retrieve", "item_id": id}))
            .await;
        self.until("conversation.item.retrieved").await["item"].clone()
    }

    /// Requests a response with these parameters and reads all of it.
    pub async fn respond(&mut self, params: Value) -> Reply {
        self.send(&json!({"type": "response.create", "response": params}))
            .await;
        self.reply().await
    }

    /// Writes a message and reads the response.
    pub async fn ask(&mut self, text: &str) -> Reply {
        self.write(text).await;
        self.respond(json!({})).await
    }

    /// Reads the events up to the next `response.done`.
    pub async fn reply(&mut self) -> Reply {
        let from = self.log.len();
        self.reply_since(from).await
    }

    /// Like [`reply`](Self::reply), with the events after the first `from` ones of the session.
    pub async fn reply_since(&mut self, from: usize) -> Reply {
        let done = self.until("response.done").await;
        let events = self.log[from..].to_vec();
        let (mut audio, mut transcript) = (Vec::new(), String::new());
        for event in &events {
            match event["type"].as_str().unwrap() {
                "response.output_audio.delta" | "response.audio.delta" => {
                    audio.extend(STANDARD.decode(event["delta"].as_str().unwrap()).unwrap());
                }
                "response.output_audio_transcript.delta" | "response.audio_transcript.delta" => {
                    transcript.push_str(event["delta"].as_str().unwrap());
                }
                _ => {}
            }
        }
        Reply {
            response: done["response"].clone(),
            events,
            audio,
            transcript,
        }
    }
}

/// Audio of the client.
impl Session {
    /// Appends audio in chunks of 100 ms, without pauses.
    pub async fn append(&mut self, audio: &[u8]) {
        self.append_chunks(audio, CHUNK).await;
    }

    /// Appends audio in chunks of this size.
    pub async fn append_chunks(&mut self, audio: &[u8], size: usize) {
        for chunk in audio.chunks(size) {
            let audio = STANDARD.encode(chunk);
            self.send(&json!({"type": "input_audio_buffer.append", "audio": audio}))
                .await;
        }
    }

    /// Commits the audio. Returns the id of its item.
    pub async fn commit(&mut self) -> Value {
        self.send(&json!({"type": "input_audio_buffer.commit"})).await;
        let committed = self.until("input_audio_buffer.committed").await;
        self.until("conversation.item.done").await;
        committed["item_id"].clone()
    }
}

/// Events of a response.
pub struct Reply {
    /// The final response.
    pub response: Value,
    /// All events up to `response.done`.
    pub events: Vec<Value>,
    /// The audio of all deltas.
    pub audio: Vec<u8>,
    /// The transcript of all deltas.
    pub transcript: String,
}

impl Reply {
    /// Returns the types of the events. Successive deltas of one kind are one.
    pub fn types(&self) -> Vec<&str> {
        let mut types: Vec<&str> = self
            .events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        types.dedup();
        types
    }

    /// Returns the request id of the response.
    pub fn request_id(&self) -> &str {
        self.response["request_id"].as_str().unwrap()
    }

    /// Asserts that the response is complete.
    #[must_use]
    pub fn completed(self) -> Self {
        assert_eq!(self.response["status"], "completed", "{}", self.response);
        assert_eq!(self.response["status_details"], Value::Null, "{}", self.response);
        self
    }
}

/// Returns a message of the user.
pub fn message(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// Returns the code, the parameter and the client's event id of an error event.
pub fn error_of(event: &Value) -> (&str, Option<&str>, Option<&str>) {
    assert_eq!(event["type"], "error", "{event}");
    let error = &event["error"];
    assert!(
        error["message"].is_string() && error["type"].is_string(),
        "{event}"
    );
    (
        error["code"].as_str().unwrap(),
        error["param"].as_str(),
        error["event_id"].as_str(),
    )
}

/// Returns the simulator's speech: PCM at 24 kHz.
pub async fn speech(scene: &Scene, text: &str) -> Vec<u8> {
    let body = json!({"model": "sim/speech", "voice": "alloy", "response_format": "pcm"});
    let body = with(body, json!({"input": text}));
    let response = scene.client().post_json(SPEECH, &scene.key.secret, &body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.body()
}

/// Returns silence: PCM at 24 kHz.
pub fn silence(ms: usize) -> Vec<u8> {
    vec![0; SECOND / 1_000 * ms]
}
