//! Responses whose body is read while it arrives.

use serde_json::Value;

use super::connection::Connection;
use super::incoming::Framing;
use super::response::{Head, Response};

/// A response whose body has not arrived yet. Dropping it closes the connection.
#[derive(Debug)]
pub struct Answer {
    /// The response head: status and headers.
    pub head: Head,
    connection: Connection,
    framing: Framing,
    end: Option<End>,
}

/// End of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The body ended where its framing specifies.
    Whole,
    /// The connection ended before the end that the framing specifies.
    Cut,
}

/// One server-sent event, or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The payload of its `data:` lines; `None` for a comment.
    pub data: Option<String>,
    /// The bytes of the event, with the blank line.
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

    /// Returns the next chunk, as the gateway framed it; `None` at the end.
    pub async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if self.end.is_some() {
            return None;
        }
        match self.connection.incoming.chunk(&mut self.framing).await {
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

    /// Returns the next event; `None` at the end.
    ///
    /// # Panics
    /// If a chunk is not exactly one event.
    pub async fn next_event(&mut self) -> Option<Event> {
        let chunk = self.next_chunk().await?;
        Some(Event::parse(&chunk))
    }

    /// Returns the next event that is not a comment, as JSON.
    ///
    /// # Panics
    /// If the stream ends first, or the event is not JSON.
    pub async fn next_json(&mut self) -> Value {
        loop {
            let event = self.next_event().await.expect("one more event");
            if event.data.is_some() {
                return event.json();
            }
        }
    }

    /// Returns the end of the body; `None` until [`next_chunk`](Self::next_chunk) returns `None`.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Reads the rest of the body.
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

    /// Returns the connection, even if the body was not read to its end.
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}

impl Event {
    /// Parses exactly one event: `data: ` lines or comments, and the blank line.
    ///
    /// # Panics
    /// If the bytes are less or more than one event.
    pub fn parse(raw: &[u8]) -> Self {
        let text = std::str::from_utf8(raw).unwrap_or_else(|_| panic!("{raw:?} is not UTF-8"));
        let lines = text
            .strip_suffix("\n\n")
            .unwrap_or_else(|| panic!("{text:?} does not end an event"));
        let mut data: Option<String> = None;
        for line in lines.split('\n') {
            match (line.strip_prefix("data: "), &mut data) {
                (Some(payload), None) => data = Some(payload.to_owned()),
                // Joins the lines of one payload (WHATWG HTML, section 9.2).
                (Some(payload), Some(data)) => data.extend(["\n", payload]),
                (None, _) => assert!(line.starts_with(':'), "{line:?} belongs to no event of {text:?}"),
            }
        }
        Self {
            data,
            raw: raw.to_vec(),
        }
    }

    /// Whether the payload is `[DONE]`.
    pub fn is_done(&self) -> bool {
        self.data.as_deref() == Some("[DONE]")
    }

    /// Returns the payload as JSON.
    ///
    /// # Panics
    /// If the payload is not JSON.
    pub fn json(&self) -> Value {
        let data = self.data.as_deref().expect("an event, not a comment");
        serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
    }
}
