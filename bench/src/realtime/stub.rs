//! A provider of realtime conversations. Each response is a series of words, which are the times of
//! their sending.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// Interval of the events of a response.
pub(super) const EVENT_INTERVAL: Duration = Duration::from_millis(50);
/// Number of words of a response.
const WORDS: usize = 100;

/// The provider's server.
pub(super) struct Stub {
    address: SocketAddr,
    task: AbortHandle,
}

impl Stub {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Ok(Self {
            address,
            task: task.abort_handle(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the time in microseconds since 1970.
pub(super) fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64
}

async fn serve(stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut socket = accept_async(stream).await?;
    send(&mut socket, json!({"type": "session.created", "session": {}})).await?;
    loop {
        let message = socket.next().await.context("the client has left")??;
        let Message::Text(text) = message else { continue };
        let event: Value = serde_json::from_str(&text)?;
        match event["type"].as_str() {
            Some("session.update") => {
                let updated = json!({"type": "session.updated", "session": event["session"]});
                send(&mut socket, updated).await?;
            }
            Some("conversation.item.create") => {
                let mut item = event["item"].clone();
                if item["id"].is_null() {
                    item["id"] = json!("item_input");
                }
                let added = json!({"type": "conversation.item.added", "item": item});
                send(&mut socket, added).await?;
            }
            Some("response.create") => respond(&mut socket).await?,
            _ => {}
        }
    }
}

async fn respond(socket: &mut WebSocketStream<TcpStream>) -> anyhow::Result<()> {
    let response = json!({"id": "resp_1", "status": "in_progress", "output": []});
    send(socket, json!({"type": "response.created", "response": response})).await?;
    let place = json!({"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0});
    let item = json!({"id": "item_1", "type": "message", "role": "assistant", "content": []});
    let mut added = place.clone();
    added["type"] = json!("response.output_item.added");
    added["item"] = item;
    send(socket, added).await?;
    let mut delta = place;
    delta["type"] = json!("response.output_audio_transcript.delta");
    for _ in 0..WORDS {
        tokio::time::sleep(EVENT_INTERVAL).await;
        delta["delta"] = json!(format!("{} ", now_micros()));
        send(socket, delta.clone()).await?;
    }
    let usage = json!({"total_tokens": 200, "input_tokens": 100, "output_tokens": 100,
        "input_token_details": {"text_tokens": 100}, "output_token_details": {"text_tokens": 100}});
    let response = json!({"id": "resp_1", "status": "completed", "output": [], "usage": usage});
    send(socket, json!({"type": "response.done", "response": response})).await
}

async fn send(socket: &mut WebSocketStream<TcpStream>, event: Value) -> anyhow::Result<()> {
    Ok(socket.send(Message::text(event.to_string())).await?)
}
