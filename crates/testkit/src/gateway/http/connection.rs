//! One HTTP/1.1 connection to the gateway.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

use super::answer::Answer;
use super::incoming::{Framing, Incoming};
use super::request::Request;
use super::response::{Head, Response};
use crate::gateway::wait::in_time;

/// A connection to the gateway. It is closed when it is dropped.
#[derive(Debug)]
pub struct Connection {
    pub(super) incoming: Incoming,
    // Dropping this half closes its direction, which a server may treat as a disconnect.
    outgoing: OwnedWriteHalf,
}

impl Connection {
    pub(super) async fn to(address: SocketAddr) -> Self {
        let connection = Self::try_to(address).await;
        connection.unwrap_or_else(|error| panic!("{address} refuses connections: {error}"))
    }

    pub(super) async fn try_to(address: SocketAddr) -> io::Result<Self> {
        let stream = in_time("a connection", TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        let (incoming, outgoing) = stream.into_split();
        Ok(Self {
            incoming: Incoming::new(incoming),
            outgoing,
        })
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// The gateway has closed the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        in_time("the gateway to read", self.outgoing.write_all(bytes)).await
    }

    /// Shuts down the sending direction.
    ///
    /// # Errors
    /// The gateway has closed the connection.
    pub async fn end_writing(&mut self) -> io::Result<()> {
        self.outgoing.shutdown().await
    }

    /// Reads the next head; `None` when the connection ends without one.
    pub async fn read_head(&mut self) -> Option<Head> {
        self.incoming.head().await
    }

    /// Reads the next response.
    ///
    /// # Panics
    /// If the connection ends before the response head.
    pub async fn read(&mut self) -> Response {
        read(&mut self.incoming, false)
            .await
            .expect("a response has a head")
    }

    /// Sends a request and reads the response. A server that refuses early need not read the whole
    /// request.
    ///
    /// # Panics
    /// If the connection ends without a response.
    pub async fn respond(&mut self, request: &Request) -> Response {
        self.try_respond(request).await.expect("a response has a head")
    }

    /// Like [`respond`](Self::respond), but returns `None` if the connection ends without a
    /// response.
    pub(super) async fn try_respond(&mut self, request: &Request) -> Option<Response> {
        let bytes = request.bytes();
        let write = self.outgoing.write_all(&bytes);
        let read = read(&mut self.incoming, request.is_head());
        tokio::pin!(write, read);
        tokio::select! {
            response = &mut read => response,
            // After a failed write, the response may still be readable.
            _ = &mut write => read.await,
        }
    }

    /// Sends a request and reads the head of the response.
    ///
    /// # Panics
    /// If the connection ends without a response head.
    pub async fn open(mut self, request: &Request) -> Answer {
        let _ = self.write(&request.bytes()).await;
        let head = self.read_head().await.expect("a response has a head");
        Answer::new(head, self)
    }

    /// Whether the gateway closes the connection in order (FIN) without sending more bytes.
    pub async fn closes(&mut self) -> bool {
        self.incoming.closes().await
    }

    /// Resets the connection (RST), as a killed process may.
    ///
    /// # Panics
    /// If the socket option cannot be set.
    pub fn reset(self) {
        let stream = self
            .incoming
            .half
            .reunite(self.outgoing)
            .expect("both halves belong together");
        stream.set_zero_linger().unwrap();
    }
}

async fn read(incoming: &mut Incoming, is_head: bool) -> Option<Response> {
    let head = incoming.head().await?;
    let mut framing = if is_head {
        Framing::Empty
    } else {
        Framing::of(&head)
    };
    let mut chunks = Vec::new();
    let whole = loop {
        match incoming.chunk(&mut framing).await {
            Ok(Some(chunk)) => chunks.push(chunk),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    Some(Response {
        status: head.status,
        head,
        chunks,
        whole,
    })
}
