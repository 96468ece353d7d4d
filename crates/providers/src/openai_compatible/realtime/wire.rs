//! A WebSocket that ends with its first error.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tollgate_upstream::UpstreamError;

use crate::http::Socket;

/// Connection of a link.
#[derive(Debug)]
pub(in crate::openai_compatible) struct Wire {
    socket: Socket,
    /// Maximum wait for an answer that a command needs, and for writing.
    timeout: Duration,
    /// Error with which the connection ended.
    ended: Option<UpstreamError>,
}

impl Wire {
    pub(in crate::openai_compatible) fn new(socket: Socket, timeout: Duration) -> Self {
        Self {
            socket,
            timeout,
            ended: None,
        }
    }

    pub(in crate::openai_compatible) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Stores the error with which the connection ended, and returns the first one.
    pub(in crate::openai_compatible) fn end(&mut self, error: UpstreamError) -> UpstreamError {
        self.ended.get_or_insert(error).clone()
    }

    /// Returns the error with which the connection ended.
    pub(in crate::openai_compatible) fn check_open(&self) -> Result<(), UpstreamError> {
        match &self.ended {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Adds a message to those that the next write or read sends.
    pub(in crate::openai_compatible) fn queue(&mut self, text: String) {
        self.socket.queue(text);
    }

    /// Writes the queued messages.
    pub(in crate::openai_compatible) async fn flush(&mut self) -> Result<(), UpstreamError> {
        self.check_open()?;
        let flushed = self.socket.flush(self.timeout).await;
        flushed.map_err(|error| self.end(error))
    }

    /// Returns the next message, which must arrive until `due`, if given. Cancel-safe.
    pub(in crate::openai_compatible) async fn receive(
        &mut self,
        due: Option<Instant>,
    ) -> Result<String, UpstreamError> {
        self.check_open()?;
        let received = match due {
            None => self.socket.receive().await,
            Some(due) => timeout_at(due, self.socket.receive()).await.unwrap_or_else(|_| {
                Err(UpstreamError::timeout(
                    "timed out waiting for the rest of the response",
                ))
            }),
        };
        received.map_err(|error| self.end(error))
    }
}
