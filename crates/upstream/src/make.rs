//! What is made of pictures and films by an upstream. Some answer with the thing itself, others with a handle by which they
//! are asked how it goes; the same port serves both.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use tollgate_types::{Error, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// A picture, film or recording that goes into a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// All of it.
    pub bytes: Bytes,
    /// What it is, such as `image/png`; its bytes begin as those do.
    pub mime_type: Arc<str>,
}

/// Pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

impl Size {
    /// How many there are.
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

/// What became of a submission.
#[derive(Debug)]
pub enum Submitted {
    /// It is made.
    Made(Made),
    /// It will be made.
    Accepted {
        /// How the upstream is asked for it, as the adapter reads it. It has no secrets in it.
        handle: Vec<u8>,
        /// When to ask first.
        poll_after: Duration,
    },
}

/// How it goes with what was submitted.
#[derive(Debug)]
pub enum State {
    /// It has not been begun.
    Waiting {
        /// How many are before it, if the upstream tells.
        ahead: Option<u32>,
    },
    /// It is being made.
    Running {
        /// How much of it is done, if the upstream tells.
        percent: Option<u8>,
    },
    /// It is made.
    Made(Made),
    /// It was made and is withheld: the upstream's check of its output forbids it.
    Blocked,
    /// It is not made and will not be.
    Failed(UpstreamError),
    /// It was cancelled.
    Cancelled,
    /// The upstream knows nothing of it, or not any more.
    Lost,
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    /// Each of them.
    pub pieces: Vec<Piece>,
    /// Tokens that the upstream says it consumed; `None` when it says nothing. What was made is counted by the gateway.
    pub usage: Option<Usage>,
}

/// One picture or film.
#[derive(Debug)]
pub struct Piece {
    /// Where it is.
    pub content: Content,
    /// The prompt that was used, when the upstream has changed it.
    pub revised_prompt: Option<String>,
}

/// Where the bytes of a piece are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Here.
    Bytes(Bytes),
    /// At the upstream's own server: [`Maker::fetch`] has them.
    Own(String),
    /// At an address anywhere, which anybody may fetch.
    Address(String),
}

/// Bytes as they come. It ends after its first error.
pub type ContentStream = Pin<Box<dyn Stream<Item = Result<Bytes, UpstreamError>> + Send>>;

/// Makes what a call of this kind asks for.
#[async_trait]
pub trait Maker<C: Sync>: Send + Sync {
    /// The most pieces of one submission to this model of its.
    fn most_at_once(&self, upstream_model: &str) -> u32 {
        let _ = upstream_model;
        1
    }

    /// Whether a submission that is sent again under its key is carried out once.
    fn keeps_keys(&self) -> bool {
        false
    }

    /// Refuses what it cannot carry of a call: `UnsupportedParameter` with the parameter of the gateway's own API.
    fn check(&self, call: &C) -> Result<(), Error> {
        let _ = call;
        Ok(())
    }

    /// Asks for it, once. The key is another one for each attempt. Errors say whether any byte was sent.
    async fn submit(&self, ctx: &CallContext, call: &C, key: &str) -> Result<Submitted, UpstreamError>;

    /// Asks how it goes. An error says that it could not be asked, and nothing about what is being made.
    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError>;

    /// Says that it is not wanted any more. Whether it stops is for [`Maker::poll`] to say.
    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError>;

    /// The bytes of [`Content::Own`].
    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError>;
}
