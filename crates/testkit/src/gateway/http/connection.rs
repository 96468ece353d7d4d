//! One connection.

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
    // Its drop would close this direction, which a server may take for a caller that left.
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

    /// Says that nothing more will be sent.
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
    /// When the connection ends before its head.
    pub async fn read(&mut self) -> Response {
        read(&mut self.incoming, false)
            .await
            .expect("a response has a head")
    }

    /// Sends a request and reads the response; whoever refuses a request early need not read all of it.
    ///
    /// # Panics
    /// When the connection ends without a response.
    pub async fn respond(&mut self, request: &Request) -> Response {
        self.try_respond(request).await.expect("a response has a head")
    }

    /// The same; `None` when the connection ends without a response.
    pub(super) async fn try_respond(&mut self, request: &Request) -> Option<Response> {
        let bytes = request.bytes();
        let write = self.outgoing.write_all(&bytes);
        let read = read(&mut self.incoming, request.is_head());
        tokio::pin!(write, read);
        tokio::select! {
            response = &mut read => response,
            // When it breaks, the answer to what was sent may still be there.
            _ = &mut write => read.await,
        }
    }

    /// Sends a request and reads the head of the response.
    ///
    /// # Panics
    /// When the connection ends without one.
    pub async fn open(mut self, request: &Request) -> Answer {
        let _ = self.write(&request.bytes()).await;
        let head = self.read_head().await.expect("a response has a head");
        Answer::new(head, self)
    }

    /// Whether the gateway closes the connection in order, without a word.
    pub async fn closes(&mut self) -> bool {
        self.incoming.closes().await
    }

    /// Resets the connection, as a process that is killed may.
    ///
    /// # Panics
    /// When the socket does not let itself be set so.
    pub fn reset(self) {
        let stream = self
            .incoming
            .half
            .reunite(self.outgoing)
            .expect("both are halves of one");
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
        match incoming.piece(&mut framing).await {
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
