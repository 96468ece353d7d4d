//! A client of realtime sessions.

use anyhow::{Context as _, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::BYTES_PER_MS;
use super::stub::now_micros;

/// An open session.
pub(super) struct Session {
    socket: WebSocketStream<TcpStream>,
    /// Noise of a quiet voice, as base64 of 100 ms.
    noise: String,
    /// Duration of `noise`, in milliseconds.
    noise_ms: u64,
}

impl Session {
    /// Opens a session of a model and waits for its first event.
    pub(super) async fn open(address: impl ToSocketAddrs, model: &str, key: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let url = format!("ws://127.0.0.1/v1/realtime?model={model}");
        let mut request = url.into_client_request()?;
        let authorization = format!("Bearer {key}").parse()?;
        request.headers_mut().insert("authorization", authorization);
        let (socket, _) = client_async(request, stream).await?;
        let mut session = Self {
            socket,
            noise: String::new(),
            noise_ms: 0,
        };
        session.until("session.created").await?;
        Ok(session)
    }

    pub(super) async fn send(&mut self, event: &Value) -> anyhow::Result<()> {
        Ok(self.socket.send(Message::text(event.to_string())).await?)
    }

    /// Reads events up to one of this type, and returns it.
    pub(super) async fn until(&mut self, kind: &str) -> anyhow::Result<Value> {
        loop {
            let event = self.event().await?;
            if event["type"] == kind {
                return Ok(event);
            }
            if event["type"] == "error" {
                bail!("before {kind}: {event}");
            }
        }
    }

    async fn event(&mut self) -> anyhow::Result<Value> {
        loop {
            let message = self.socket.next().await.context("the session has ended")??;
            if let Message::Text(text) = message {
                return Ok(serde_json::from_str(&text)?);
            }
        }
    }

    /// Switches turn detection on, with turns that never end by silence.
    pub(super) async fn detect_turns(&mut self) -> anyhow::Result<()> {
        let detection =
            json!({"type": "server_vad", "silence_duration_ms": 10_000, "create_response": false});
        let session = json!({"audio": {"input": {"turn_detection": detection}}});
        self.send(&json!({"type": "session.update", "session": session}))
            .await?;
        self.until("session.updated").await.map(|_| ())
    }

    /// Appends noise of this duration, in one event.
    pub(super) async fn append(&mut self, audio_ms: u64) -> anyhow::Result<()> {
        if self.noise_ms != audio_ms {
            let mut state = 7_u32;
            let samples = (0..audio_ms * BYTES_PER_MS / 2).flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 20) as i16 - 2_048).to_le_bytes()
            });
            self.noise = STANDARD.encode(samples.collect::<Vec<u8>>());
            self.noise_ms = audio_ms;
        }
        let event = format!(
            r#"{{"type":"input_audio_buffer.append","audio":"{}"}}"#,
            self.noise
        );
        Ok(self.socket.send(Message::text(event)).await?)
    }

    /// Requests a response of the stub. Returns the age of its events at their arrival, in
    /// microseconds.
    pub(super) async fn delays(&mut self) -> anyhow::Result<Vec<u64>> {
        let content = json!([{"type": "input_text", "text": "Hello"}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.send(&json!({"type": "conversation.item.create", "item": item}))
            .await?;
        self.send(&json!({"type": "response.create"})).await?;
        let mut delays = Vec::new();
        loop {
            let event = self.event().await?;
            let now = now_micros();
            match event["type"].as_str() {
                Some("response.output_audio_transcript.delta") => {
                    let sent: u64 = event["delta"].as_str().unwrap_or_default().trim().parse()?;
                    delays.push(now.saturating_sub(sent));
                }
                Some("response.done") => return Ok(delays),
                Some("error") => bail!("{event}"),
                _ => {}
            }
        }
    }
}
