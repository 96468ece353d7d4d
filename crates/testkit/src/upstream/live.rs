//! `GET /ws/….BidiGenerateContent`: a conversation in the form of Gemini's Live API, with
//! activities that the client marks. An answer repeats the last text of the user, or states the
//! duration of the user's audio; its words precede its tone. Messages that the API refuses close
//! the connection with the code 1007.

use std::collections::{HashMap, VecDeque};
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
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
use super::script::Script;

/// Close code for messages that the API refuses.
const INVALID: u16 = 1007;
/// Length of the tone of an answer, unless a test sets another one, in milliseconds.
const USUAL_AUDIO_MS: u64 = 1_000;
/// Length of a chunk of the tone, in milliseconds.
const CHUNK_MS: u64 = 200;
/// Bytes of a millisecond of audio.
const BYTES_PER_MS: u64 = 48;
/// Milliseconds of audio of one token.
const MS_PER_TOKEN: u64 = 40;

/// A fault of a Live conversation. Each one occurs once, at the first opportunity on any
/// connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveFault {
    /// The connection closes with this code after the first message with this member, such as
    /// `setupComplete`, `modelTurn` or `turnComplete`.
    CloseAfter(&'static str, u16),
    /// The connection closes before its first message.
    CloseUnused,
    /// The server announces the end of the connection after the next turn.
    GoAway,
    /// The next answer has no usage.
    NoUsage,
    /// The next turn gives no handle.
    NoHandle,
    /// A connection with a handle is refused.
    RefuseHandle,
    /// A message that is not JSON precedes the next answer.
    Garbage,
    /// The next answer stops after its first audio, until the client interrupts it.
    WaitForInterruption,
    /// The next turn ends for this reason, without an answer.
    EndTurn(&'static str),
    /// The model's turn also ends after the next function call.
    EndAfterCalls,
    /// The model calls these functions, by name and arguments, instead of answering.
    Call(Vec<(&'static str, Value)>),
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveReceived {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// Message in its JSON form.
    pub message: Value,
}

/// The state of all conversations.
#[derive(Debug, Default)]
pub(super) struct LiveServer {
    pub faults: VecDeque<LiveFault>,
    pub received: Vec<LiveReceived>,
    pub audio_ms: Option<u64>,
    /// Conversations by their handles.
    stored: HashMap<String, Conversation>,
    /// Number of answers.
    pub answers: u64,
    /// Number of connections that have ended.
    pub ended: u64,
}

impl LiveServer {
    fn take(&mut self, found: impl Fn(&LiveFault) -> bool) -> Option<LiveFault> {
        let place = self.faults.iter().position(found)?;
        self.faults.remove(place)
    }
}

/// Whether a request opens a conversation.
pub(super) fn is_handshake(request: &ReceivedRequest) -> bool {
    request.method == "GET"
        && request
            .bare_path()
            .ends_with(".GenerativeService.BidiGenerateContent")
        && request.header("sec-websocket-key").is_some()
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
    let mut session = Session::new(script, request.connection);
    if let Some(code) = session.run(&mut socket).await {
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: "closed_by_script".into(),
        };
        let _ = socket.close(Some(frame)).await;
        // The client answers with a close frame.
        while let Some(Ok(_)) = socket.next().await {}
    }
    script.change(|state| state.live.ended += 1);
    Ok(())
}

/// The part of a conversation that a handle restores.
#[derive(Debug, Clone, Default)]
struct Conversation {
    /// Texts of the user, the model and functions.
    texts: Vec<String>,
    /// Last text of the user.
    last: String,
    audio_ms: u64,
}

struct Session<'s> {
    script: &'s Script,
    number: u64,
    setup: Option<Value>,
    awaits_history: bool,
    conversation: Conversation,
    /// Audio and texts of the open activity.
    activity: Option<(u64, Vec<String>)>,
    /// Ids of the calls without an output.
    open_calls: Vec<String>,
    output: VecDeque<Value>,
    /// Whether the output waits for an interruption.
    is_waiting: bool,
    is_answering: bool,
    sent_ms: u64,
    ids: u64,
}

/// The client's message is refused.
struct Refused;

impl<'s> Session<'s> {
    fn new(script: &'s Script, number: u64) -> Self {
        Self {
            script,
            number,
            setup: None,
            awaits_history: false,
            conversation: Conversation::default(),
            activity: None,
            open_calls: Vec::new(),
            output: VecDeque::new(),
            is_waiting: false,
            is_answering: false,
            sent_ms: 0,
            ids: 0,
        }
    }

    fn take(&self, found: impl Fn(&LiveFault) -> bool) -> Option<LiveFault> {
        self.script.change(|state| state.live.take(found))
    }

    /// Runs the conversation. Returns the close code; `None` if the client has left.
    async fn run(&mut self, socket: &mut WebSocketStream<&mut TcpStream>) -> Option<u16> {
        if self.take(|fault| *fault == LiveFault::CloseUnused).is_some() {
            return Some(1011);
        }
        loop {
            // Messages of the client have precedence, so that an interruption takes effect.
            let message = tokio::select! {
                biased;
                message = socket.next() => Some(message),
                () = std::future::ready(()), if !self.output.is_empty() && !self.is_waiting => None,
            };
            match message {
                Some(Some(Ok(Message::Text(text)))) => {
                    let message: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
                    self.script.change(|state| {
                        state.live.received.push(LiveReceived {
                            connection: self.number,
                            message: message.clone(),
                        });
                    });
                    if self.receive(&message).is_err() {
                        return Some(INVALID);
                    }
                }
                Some(Some(Ok(Message::Close(_)) | Err(_)) | None) => return None,
                Some(Some(Ok(_))) => {}
                None => {
                    let message = self.output.pop_front()?;
                    if let Some(code) = self.send(socket, &message).await {
                        return Some(code);
                    }
                }
            }
        }
    }

    /// Sends a message, as the API does in a binary frame. Returns a close code if a fault follows.
    async fn send(&mut self, socket: &mut WebSocketStream<&mut TcpStream>, message: &Value) -> Option<u16> {
        let text = message
            .as_str()
            .map_or_else(|| message.to_string(), str::to_owned);
        if socket.send(Message::binary(text.into_bytes())).await.is_err() {
            return Some(INVALID);
        }
        let content = &message["serverContent"];
        if content["modelTurn"]["parts"][0]["inlineData"].is_object() {
            self.sent_ms += CHUNK_MS;
            let waits = self.take(|fault| *fault == LiveFault::WaitForInterruption);
            self.is_waiting = waits.is_some();
        }
        if content["turnComplete"] == true {
            self.is_answering = false;
        }
        let has = |member: &str| !message[member].is_null() || !content[member].is_null();
        let fault = self.take(|fault| matches!(fault, LiveFault::CloseAfter(member, _) if has(member)));
        match fault {
            Some(LiveFault::CloseAfter(_, code)) => Some(code),
            _ => None,
        }
    }

    fn receive(&mut self, message: &Value) -> Result<(), Refused> {
        let members = message.as_object().ok_or(Refused)?;
        let [(kind, value)] = &members.iter().collect::<Vec<_>>()[..] else {
            return Err(Refused);
        };
        if (*kind == "setup") == self.setup.is_some() {
            return Err(Refused);
        }
        match kind.as_str() {
            "setup" => self.set_up(value),
            "clientContent" => self.add(value),
            "realtimeInput" => self.hear(value),
            "toolResponse" => self.resolve(value),
            _ => Err(Refused),
        }
    }

    fn set_up(&mut self, setup: &Value) -> Result<(), Refused> {
        let is_manual = setup["realtimeInputConfig"]["automaticActivityDetection"]["disabled"] == true;
        if !is_manual
            || !setup["model"]
                .as_str()
                .is_some_and(|model| model.starts_with("models/"))
        {
            return Err(Refused);
        }
        if let Some(handle) = setup["sessionResumption"]["handle"].as_str() {
            let stored = self.script.change(|state| state.live.stored.get(handle).cloned());
            if self.take(|fault| *fault == LiveFault::RefuseHandle).is_some() {
                return Err(Refused);
            }
            self.conversation = stored.ok_or(Refused)?;
        }
        self.awaits_history = setup["historyConfig"]["initialHistoryInClientContent"] == true;
        self.setup = Some(setup.clone());
        self.output.push_back(json!({"setupComplete": {}}));
        Ok(())
    }

    /// Adds turns to the conversation.
    fn add(&mut self, content: &Value) -> Result<(), Refused> {
        if self.activity.is_some() {
            return Err(Refused);
        }
        for turn in content["turns"].as_array().into_iter().flatten() {
            for part in turn["parts"].as_array().into_iter().flatten() {
                let text = part["text"]
                    .as_str()
                    .map_or_else(|| part.to_string(), str::to_owned);
                if turn["role"] == "user" {
                    self.conversation.last.clone_from(&text);
                }
                self.conversation.texts.push(text);
            }
        }
        if content["turnComplete"] == true && !std::mem::take(&mut self.awaits_history) {
            self.answer();
        }
        Ok(())
    }

    /// Applies input of the user in real time.
    fn hear(&mut self, input: &Value) -> Result<(), Refused> {
        if input["activityStart"].is_object() {
            if self.activity.replace((0, Vec::new())).is_some() {
                return Err(Refused);
            }
            self.interrupt();
            return Ok(());
        }
        let (audio_ms, texts) = self.activity.as_mut().ok_or(Refused)?;
        if let Some(text) = input["text"].as_str() {
            texts.push(text.to_owned());
            return Ok(());
        }
        if let Some(audio) = input["audio"]["data"].as_str() {
            if input["audio"]["mimeType"] != "audio/pcm;rate=24000" {
                return Err(Refused);
            }
            let audio = STANDARD.decode(audio).map_err(|_| Refused)?;
            *audio_ms += audio.len() as u64 / BYTES_PER_MS;
            return Ok(());
        }
        if !input["activityEnd"].is_object() {
            return Err(Refused);
        }
        let (audio_ms, mut texts) = self.activity.take().ok_or(Refused)?;
        if audio_ms > 0 {
            let words = format!("{audio_ms} ms of speech");
            self.output
                .push_back(json!({"serverContent": {"inputTranscription": {"text": words}}}));
            texts.push(words);
        }
        self.conversation.audio_ms += audio_ms;
        self.conversation.last = texts.last().cloned().ok_or(Refused)?;
        self.conversation.texts.append(&mut texts);
        self.answer();
        Ok(())
    }

    /// Reads the outputs of all open calls.
    fn resolve(&mut self, outputs: &Value) -> Result<(), Refused> {
        let outputs = outputs["functionResponses"].as_array().ok_or(Refused)?;
        for output in outputs {
            let id = output["id"].as_str().ok_or(Refused)?;
            let place = self
                .open_calls
                .iter()
                .position(|call| call == id)
                .ok_or(Refused)?;
            self.open_calls.remove(place);
            self.conversation.last = output["response"].to_string();
            self.conversation.texts.push(output["response"].to_string());
        }
        if self.open_calls.is_empty() {
            self.answer();
        }
        Ok(())
    }

    fn interrupt(&mut self) {
        if !self.is_answering {
            return;
        }
        self.is_waiting = false;
        self.output.clear();
        self.output
            .push_back(json!({"serverContent": {"interrupted": true}}));
        self.end_turn(None, self.sent_ms);
    }

    fn audio_ms(&self) -> u64 {
        self.script.state().live.audio_ms.unwrap_or(USUAL_AUDIO_MS)
    }

    fn is_spoken(&self) -> bool {
        let setup = self.setup.as_ref();
        setup.is_some_and(|setup| setup["generationConfig"]["responseModalities"] == json!(["AUDIO"]))
    }

    fn answer(&mut self) {
        self.script.change(|state| state.live.answers += 1);
        (self.is_answering, self.sent_ms) = (true, 0);
        if self.take(|fault| *fault == LiveFault::Garbage).is_some() {
            self.output.push_back(json!("{\"serverContent\": "));
        }
        let ends = self.take(|fault| matches!(fault, LiveFault::EndTurn(_)));
        if let Some(LiveFault::EndTurn(reason)) = ends {
            self.end_turn(Some(reason), 0);
            return;
        }
        let calls = self.take(|fault| matches!(fault, LiveFault::Call(_)));
        if let Some(LiveFault::Call(calls)) = calls {
            self.call(&calls);
            return;
        }
        let text = self.conversation.last.clone();
        self.conversation.texts.push(text.clone());
        let mut spoken_ms = 0;
        if self.is_spoken() {
            for word in text.split_inclusive(' ') {
                self.output
                    .push_back(json!({"serverContent": {"outputTranscription": {"text": word}}}));
            }
            spoken_ms = self.audio_ms();
            for start in (0..spoken_ms).step_by(usize::try_from(CHUNK_MS).unwrap_or(1)) {
                let bytes = CHUNK_MS.min(spoken_ms - start) * BYTES_PER_MS;
                let data = STANDARD.encode(vec![7; usize::try_from(bytes).unwrap_or(0)]);
                self.output
                    .push_back(json!({"serverContent": {"modelTurn": {"parts": [
                    {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}}]}}}));
            }
        } else {
            for word in text.split_inclusive(' ') {
                let parts = json!([{"text": "A thought.", "thought": true}, {"text": word}]);
                self.output
                    .push_back(json!({"serverContent": {"modelTurn": {"role": "model", "parts": parts}}}));
            }
        }
        self.output
            .push_back(json!({"serverContent": {"generationComplete": true}}));
        self.end_turn(None, spoken_ms);
    }

    fn call(&mut self, calls: &[(&'static str, Value)]) {
        let mut written = Vec::new();
        for (name, arguments) in calls {
            self.ids += 1;
            let id = format!("function-call-{}-{}", self.number, self.ids);
            written.push(json!({"id": id, "name": name, "args": arguments}));
            self.open_calls.push(id);
        }
        let usage = self.usage(0, calls.len() as u64);
        self.output
            .push_back(json!({"toolCall": {"functionCalls": written}, "usageMetadata": usage}));
        if self.take(|fault| *fault == LiveFault::EndAfterCalls).is_some() {
            self.output
                .push_back(json!({"serverContent": {"turnComplete": true}}));
        }
    }

    /// Ends the turn, with its usage and a new handle.
    fn end_turn(&mut self, reason: Option<&str>, spoken_ms: u64) {
        let mut end = json!({"serverContent": {"turnComplete": true}});
        if let Some(reason) = reason {
            end["serverContent"]["turnCompleteReason"] = json!(reason);
        }
        let has_words = reason.is_none() && !self.is_spoken();
        let words = self.conversation.last.split_whitespace().count() as u64;
        if self.take(|fault| *fault == LiveFault::NoUsage).is_none() {
            end["usageMetadata"] = self.usage(spoken_ms, if has_words { words } else { 0 });
        }
        let handle = format!("handle-{}-{}", self.number, self.script.state().live.answers);
        if self.take(|fault| *fault == LiveFault::NoHandle).is_none() {
            let stored = self.conversation.clone();
            self.script
                .change(|state| state.live.stored.insert(handle.clone(), stored));
            let update = json!({"newHandle": handle, "resumable": true});
            self.output.push_back(json!({"sessionResumptionUpdate": update}));
        }
        if self.take(|fault| *fault == LiveFault::GoAway).is_some() {
            self.output.push_back(json!({"goAway": {"timeLeft": "50s"}}));
        }
        self.output.push_back(end);
    }

    fn usage(&self, spoken_ms: u64, words: u64) -> Value {
        let texts = self.conversation.texts.iter();
        let read: u64 = texts.map(|text| text.split_whitespace().count() as u64).sum();
        let heard = self.conversation.audio_ms / MS_PER_TOKEN;
        let spoken = spoken_ms / MS_PER_TOKEN;
        json!({
            "promptTokenCount": read + heard,
            "responseTokenCount": spoken + words,
            "totalTokenCount": read + heard + spoken + words,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": read}, {"modality": "AUDIO", "tokenCount": heard}],
            "responseTokensDetails": [
                {"modality": "TEXT", "tokenCount": words}, {"modality": "AUDIO", "tokenCount": spoken}],
        })
    }
}
