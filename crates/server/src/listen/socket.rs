//! The socket of one connection as the HTTP library uses it. It holds back the answers that the library gives by itself
//! to what is no request, because they have neither body nor id, and it survives the library, so that the right answer
//! can still be sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What an answer of the library's own begins with; those of the service have an id in their head.
const REFUSAL: &[u8] = b"HTTP/1.1 4";
const ID: &[u8] = b"\r\nx-request-id:";
const ANSWER: &[u8] = b"HTTP/1.1 ";

/// The half that the library has.
pub(super) struct Socket {
    stream: Option<TcpStream>,
    left: Arc<Left>,
}

/// What is known about the connection when the library is done with it.
#[derive(Default)]
pub(super) struct Left {
    stream: Mutex<Option<TcpStream>>,
    /// Whether anything came since the last answer began.
    heard: AtomicBool,
    /// The status of the answer that was held back; 0 for none.
    refused: AtomicU16,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> (Self, Arc<Left>) {
        let left = Arc::new(Left::default());
        let socket = Self {
            stream: Some(stream),
            left: left.clone(),
        };
        (socket, left)
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Looks at what is about to be written; true when it must not be.
    fn holds_back(&self, bytes: &[u8]) -> bool {
        if !bytes.starts_with(ANSWER) {
            return false;
        }
        self.left.heard.store(false, Ordering::Relaxed);
        if !bytes.starts_with(REFUSAL) || bytes.windows(ID.len()).any(|window| window == ID) {
            return false;
        }
        let status = bytes.get(ANSWER.len()..ANSWER.len() + 3);
        let status = status.and_then(|digits| StatusCode::from_bytes(digits).ok());
        let status = status.unwrap_or(StatusCode::BAD_REQUEST);
        self.left.refused.store(status.as_u16(), Ordering::Relaxed);
        true
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        *self.left.stream.lock().unwrap_or_else(PoisonError::into_inner) = self.stream.take();
    }
}

impl Left {
    /// The stream, once the library has dropped its half.
    pub(super) fn stream(&self) -> Option<TcpStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The status of the answer that was held back.
    pub(super) fn refused(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.refused.load(Ordering::Relaxed)).ok()
    }

    /// Whether a request had begun to come when the connection ended.
    pub(super) fn heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
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
        if buffer.filled().len() > before {
            self.left.heard.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.holds_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|first| self.holds_back(first)) {
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
        if self.left.refused().is_some() {
            // The right answer is still to be sent.
            return Poll::Ready(Ok(()));
        }
        self.stream()?.poll_shutdown(cx)
    }
}
