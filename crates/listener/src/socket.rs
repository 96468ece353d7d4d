//! The socket that the HTTP library reads and writes. It suppresses the library's own error
//! responses, because they have neither a body nor a request id. The underlying stream outlives the
//! library, so that the server can send its own response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::framing::{Ambiguous, Framing};

/// Start of the library's own error responses. Responses of the service also contain [`ID`].
const CLIENT_ERROR_PREFIX: &[u8] = b"HTTP/1.1 4";
const ID: &[u8] = b"\r\nx-request-id:";
const STATUS_LINE_PREFIX: &[u8] = b"HTTP/1.1 ";

/// The socket that the library owns.
pub(crate) struct Socket {
    stream: Option<TcpStream>,
    framing: Framing,
    connection_state: Arc<ConnectionState>,
}

/// State of the connection that remains after the library has ended.
#[derive(Default)]
pub(crate) struct ConnectionState {
    stream: Mutex<Option<TcpStream>>,
    /// Whether bytes arrived since the last response started.
    has_request_bytes: AtomicBool,
    /// Status of the suppressed response; 0 if none was suppressed.
    refused: AtomicU16,
    /// The first ambiguous head, if any.
    ambiguous: OnceLock<Ambiguous>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> (Self, Arc<ConnectionState>) {
        let connection_state = Arc::new(ConnectionState::default());
        let socket = Self {
            stream: Some(stream),
            framing: Framing::default(),
            connection_state: connection_state.clone(),
        };
        (socket, connection_state)
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Returns whether the bytes are a response of the library that must be suppressed.
    fn suppresses(&self, bytes: &[u8]) -> bool {
        if !bytes.starts_with(STATUS_LINE_PREFIX) {
            return false;
        }
        self.connection_state
            .has_request_bytes
            .store(false, Ordering::Relaxed);
        if !bytes.starts_with(CLIENT_ERROR_PREFIX) || bytes.windows(ID.len()).any(|window| window == ID) {
            return false;
        }
        let status = bytes.get(STATUS_LINE_PREFIX.len()..STATUS_LINE_PREFIX.len() + 3);
        let status = status.and_then(|digits| StatusCode::from_bytes(digits).ok());
        let status = status.unwrap_or(StatusCode::BAD_REQUEST);
        self.connection_state
            .refused
            .store(status.as_u16(), Ordering::Relaxed);
        true
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        *self
            .connection_state
            .stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.stream.take();
    }
}

impl ConnectionState {
    /// Returns the stream once the library has dropped its socket.
    pub(crate) fn stream(&self) -> Option<TcpStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the status of the suppressed response.
    pub(crate) fn refused(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.refused.load(Ordering::Relaxed)).ok()
    }

    /// Returns the first ambiguous head, if any.
    pub(crate) fn ambiguous(&self) -> Option<Ambiguous> {
        self.ambiguous.get().copied()
    }

    /// Whether part of a request had arrived when the connection ended.
    pub(crate) fn has_request_bytes(&self) -> bool {
        self.has_request_bytes.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.stream()?.poll_read(cx, buffer);
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            self.connection_state
                .has_request_bytes
                .store(true, Ordering::Relaxed);
            if let Some(ambiguous) = self.framing.follow(read) {
                // The framing check reports only the first ambiguous head.
                let _ = self.connection_state.ambiguous.set(ambiguous);
            }
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.suppresses(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|first| self.suppresses(first)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        self.stream()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.connection_state.refused().is_some() {
            // The server still has to send its own response.
            return Poll::Ready(Ok(()));
        }
        self.stream()?.poll_shutdown(cx)
    }
}
