//! The two halves of a session whose messages flow in both directions simultaneously. A task writes
//! the queued messages, so that receiving never waits for a slow client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{CLOSE_TIMEOUT, SessionRecord, WRITE_TIMEOUT, violation};

/// Number of queued bytes above which [`Outbox::ready`] waits.
const MAX_QUEUED_BYTES: usize = 2 << 20;
/// Maximum time without a message or pong of the client.
const PONG_TIMEOUT: Duration = Duration::from_mins(1);

/// Reason for the end of a session, as sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Close code of RFC 6455.
    pub code: u16,
    /// Sentence for the client.
    pub reason: &'static str,
}

/// Receiving half of a session.
pub struct Inbox {
    stream: SplitStream<WebSocket>,
    last_received_at: Instant,
    outbox: Outbox,
}

/// Sending half of a session. Clones share the queue.
#[derive(Clone)]
pub struct Outbox {
    queue: mpsc::UnboundedSender<Message>,
    state: Arc<State>,
}

struct State {
    record: Arc<SessionRecord>,
    queued_bytes: AtomicUsize,
    written: Notify,
    /// Set when the connection has ended, or a write has timed out.
    gone: CancellationToken,
}

pub(super) fn split(
    socket: WebSocket,
    pings: Interval,
    running: &TaskTracker,
    record: Arc<SessionRecord>,
) -> (Inbox, Outbox) {
    let (sink, stream) = socket.split();
    let (queue, queued) = mpsc::unbounded_channel();
    let state = Arc::new(State {
        record,
        queued_bytes: AtomicUsize::new(0),
        written: Notify::new(),
        gone: CancellationToken::new(),
    });
    running.spawn(write(sink, queued, pings, state.clone()));
    let outbox = Outbox { queue, state };
    let inbox = Inbox {
        stream,
        last_received_at: Instant::now(),
        outbox: outbox.clone(),
    };
    (inbox, outbox)
}

impl Inbox {
    /// Returns the next message; `None` when the session is over, or an operator has ended it.
    /// Cancel-safe.
    pub async fn recv(&mut self) -> Option<Utf8Bytes> {
        loop {
            let received = tokio::select! {
                received = self.stream.next() => received,
                () = self.outbox.state.record.ended() => return None,
                () = self.outbox.state.gone.cancelled() => return None,
                () = sleep_until(self.last_received_at + PONG_TIMEOUT) => return None,
            };
            self.last_received_at = Instant::now();
            match received {
                Some(Ok(Message::Text(text))) => {
                    self.outbox.state.record.note_activity();
                    return Some(text);
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_))) => {
                    self.outbox.close(Closing {
                        code: close_code::UNSUPPORTED,
                        reason: "Send text messages.",
                    });
                    return None;
                }
                Some(Err(error)) => {
                    if let Some((code, reason)) = violation(error) {
                        self.outbox.close(Closing { code, reason });
                    }
                    return None;
                }
                Some(Ok(Message::Close(_))) | None => return None,
            }
        }
    }

    /// Reads and drops messages until the client answers the close frame, for up to five seconds.
    /// A connection that ends with unread messages is reset, and a client that is still sending
    /// would not receive the close frame.
    pub async fn drain(mut self) {
        let answered = async {
            while let Some(Ok(message)) = self.stream.next().await {
                if matches!(message, Message::Close(_)) {
                    return;
                }
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, answered).await;
    }
}

impl Outbox {
    /// Queues a text message. A message to a client that has disconnected is dropped.
    pub fn send(&self, text: impl Into<Utf8Bytes>) {
        self.state.record.note_activity();
        self.push(Message::Text(text.into()));
    }

    /// Queues a close frame, after which nothing is written.
    pub fn close(&self, closing: Closing) {
        self.push(Message::Close(Some(CloseFrame {
            code: closing.code,
            reason: Utf8Bytes::from_static(closing.reason),
        })));
    }

    /// Waits until the client has read so much that another message can be queued, or the session
    /// is over.
    pub async fn ready(&self) {
        loop {
            let written = self.state.written.notified();
            let queued = self.state.queued_bytes.load(Ordering::Acquire);
            if queued <= MAX_QUEUED_BYTES || self.state.gone.is_cancelled() || self.state.record.is_ended() {
                return;
            }
            tokio::select! {
                () = written => {}
                () = self.state.gone.cancelled() => return,
                () = self.state.record.ended() => return,
            }
        }
    }

    fn push(&self, message: Message) {
        self.state
            .queued_bytes
            .fetch_add(size(&message), Ordering::AcqRel);
        // The receiver ends with the connection.
        let _ = self.queue.send(message);
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}

/// Writes queued messages and pings until the session is closed, the connection fails, or a write
/// times out.
async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut queued: mpsc::UnboundedReceiver<Message>,
    mut pings: Interval,
    state: Arc<State>,
) {
    loop {
        let message = tokio::select! {
            biased;
            message = queued.recv() => message,
            _ = pings.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { break };
        let (bytes, is_last) = (size(&message), matches!(message, Message::Close(_)));
        let written = timeout(WRITE_TIMEOUT, sink.send(message)).await;
        state.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        state.written.notify_waiters();
        if is_last || !matches!(written, Ok(Ok(()))) {
            break;
        }
    }
    // Answers the close frame of the client, if it sent one.
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
    state.gone.cancel();
    state.written.notify_waiters();
}
