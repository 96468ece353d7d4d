//! Responses that are read while they come.

use serde_json::Value;

use super::connection::Connection;
use super::incoming::Framing;
use super::response::{Head, Response};

/// A response whose body is still to come. Dropping it leaves: the connection is closed.
#[derive(Debug)]
pub struct Answer {
    /// Status and headers.
    pub head: Head,
    connection: Connection,
    framing: Framing,
    end: Option<End>,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Whole,
    /// With the connection, before that.
    Cut,
}

/// One server-sent event, or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The payload of its `data:` lines; `None` for a comment.
    pub data: Option<String>,
    /// Its bytes, with the blank line.
    pub raw: Vec<u8>,
}

impl Answer {
    pub(super) fn new(head: Head, connection: Connection) -> Self {
        let framing = Framing::of(&head);
        Self {
            head,
            connection,
            framing,
            end: None,
        }
    }

    /// The next chunk as the gateway framed it; `None` at the end.
    pub async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if self.end.is_some() {
            return None;
        }
        match self.connection.incoming.piece(&mut self.framing).await {
            Ok(Some(chunk)) => Some(chunk),
            Ok(None) => {
                self.end = Some(End::Whole);
                None
            }
            Err(_) => {
                self.end = Some(End::Cut);
                None
            }
        }
    }

    /// The next event; `None` at the end.
    ///
    /// # Panics
    /// When a chunk is not exactly one event.
    pub async fn next_event(&mut self) -> Option<Event> {
        let chunk = self.next_chunk().await?;
        Some(Event::parse(&chunk))
    }

    /// The next event that is no comment, as JSON.
    ///
    /// # Panics
    /// When the stream ends first, or it is not JSON.
    pub async fn next_json(&mut self) -> Value {
        loop {
            let event = self.next_event().await.expect("one more event");
            if event.data.is_some() {
                return event.json();
            }
        }
    }

    /// How the body ended, once [`next_chunk`](Self::next_chunk) has answered `None`.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Everything that is left.
    pub async fn rest(mut self) -> Response {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.next_chunk().await {
            chunks.push(chunk);
        }
        Response {
            status: self.head.status,
            head: self.head,
            chunks,
            whole: self.end == Some(End::Whole),
        }
    }

    /// The connection, wherever the body is.
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}

impl Event {
    /// Reads exactly one event: `data: ` lines or comments, and the blank line.
    ///
    /// # Panics
    /// When it is less or more.
    pub fn parse(raw: &[u8]) -> Self {
        let text = std::str::from_utf8(raw).unwrap_or_else(|_| panic!("{raw:?} is no text"));
        let lines = text
            .strip_suffix("\n\n")
            .unwrap_or_else(|| panic!("{text:?} does not end an event"));
        let mut data: Option<String> = None;
        for line in lines.split('\n') {
            match (line.strip_prefix("data: "), &mut data) {
                (Some(payload), None) => data = Some(payload.to_owned()),
                // Lines of one payload, by the rules of WHATWG HTML, section 9.2.
                (Some(payload), Some(data)) => data.extend(["\n", payload]),
                (None, _) => assert!(line.starts_with(':'), "{line:?} belongs to no event of {text:?}"),
            }
        }
        Self {
            data,
            raw: raw.to_vec(),
        }
    }

    /// Whether it is `[DONE]`.
    pub fn is_done(&self) -> bool {
        self.data.as_deref() == Some("[DONE]")
    }

    /// The payload as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        let data = self.data.as_deref().expect("an event and no comment");
        serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
    }
}
