//! Many requests that a provider carries out within a day, at a price of its own. Nothing here waits: what was handed over is asked
//! for by its handle until it has ended, and its results are read then.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;

use crate::context::CallContext;
use crate::embed::{EmbedAnswer, EmbedCall};
use crate::error::UpstreamError;
use crate::text::{TextAnswer, TextCall};

/// What the requests of a batch ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Text generation.
    Text,
    /// Embeddings.
    Embeddings,
}

/// The most that one submission takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Requests.
    pub requests: u32,
    /// Bytes of all of them as they are written.
    pub bytes: u64,
}

/// A request as it is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Without the end of a line, and on one line.
    pub text: Bytes,
    /// What is said once for all requests of a submission, such as a version of the format: those of one submission have the same.
    pub dialect: Arc<str>,
}

/// What is handed over.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Names it, where the provider keeps such a name: [`BatchProvider::find`] looks for it.
    pub key: String,
    /// What its requests ask for.
    pub kind: BatchKind,
    /// That of every request.
    pub dialect: Arc<str>,
    /// The requests, each on one line.
    pub requests: Vec<Bytes>,
    /// What [`BatchProvider::stage`] has answered.
    pub staged: Option<String>,
}

/// How it goes with what was handed over.
#[derive(Debug)]
pub enum BatchState {
    /// It has not ended.
    Running,
    /// It has ended: what came of each request is at these places, and nothing came of the others, because of this.
    Ended(Vec<String>, BatchEnd),
    /// None of it was carried out, and none of it will be.
    Failed(UpstreamError),
    /// The provider knows nothing of it, or not any more.
    Lost,
}

/// Why a batch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// All of it was carried out.
    Complete,
    /// Its time was over.
    Expired,
    /// It was cancelled.
    Cancelled,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// The name under which it was handed over.
    pub name: String,
    /// What was answered.
    pub answer: BatchAnswer,
}

/// What was answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchAnswer {
    /// What would have been answered to it alone.
    Response {
        /// The status.
        status: u16,
        /// The body.
        body: Bytes,
    },
    /// It was not carried out in time.
    Expired,
    /// It was not carried out because the batch was cancelled.
    Cancelled,
}

/// What came of requests, in any order. It ends after its first error; one that ends without was read to its end.
pub type BatchResults = Pin<Box<dyn Stream<Item = Result<BatchResult, UpstreamError>> + Send>>;

/// Carries out many requests at once.
#[async_trait]
pub trait BatchProvider: Send + Sync {
    /// Whether the operator wants requests to be handed over. What was handed over before is asked for all the same.
    fn is_wanted(&self) -> bool;

    /// The most of one submission.
    fn limits(&self) -> BatchLimits;

    /// Whether requests of this kind may be in it.
    fn carries(&self, kind: BatchKind) -> bool;

    /// A request for text under this name, as it would be sent alone. Nothing is sent.
    fn write_text(&self, call: &TextCall, name: &str) -> Result<Written, UpstreamError>;

    /// A request for vectors under this name, as it would be sent alone. Nothing is sent.
    fn write_embed(&self, call: &EmbedCall, name: &str) -> Result<Written, UpstreamError>;

    /// Puts the requests where a batch can be made of them. Nothing is carried out for that, so it may be done again. `None` when
    /// they go with [`submit`](Self::submit).
    async fn stage(
        &self,
        ctx: &CallContext,
        submission: &Submission,
    ) -> Result<Option<String>, UpstreamError> {
        let _ = (ctx, submission);
        Ok(None)
    }

    /// Has the requests carried out: the handle. It must not be called twice for the same requests, unless the error says that they
    /// were not taken.
    async fn submit(&self, ctx: &CallContext, submission: &Submission) -> Result<String, UpstreamError>;

    /// Whether [`find`](Self::find) finds what was taken.
    fn finds(&self) -> bool;

    /// The handle of what was submitted under this key, if the provider has taken it.
    async fn find(&self, ctx: &CallContext, key: &str) -> Result<Option<String>, UpstreamError>;

    /// Asks how it goes. An error says that it could not be asked, and nothing about the requests.
    async fn poll(&self, ctx: &CallContext, handle: &str) -> Result<BatchState, UpstreamError>;

    /// What is at one of the places of [`BatchState::Ended`].
    async fn results(&self, ctx: &CallContext, place: &str) -> Result<BatchResults, UpstreamError>;

    /// Says that it is not wanted any more. Whether it stops is for [`poll`](Self::poll) to say.
    async fn cancel(&self, ctx: &CallContext, handle: &str) -> Result<(), UpstreamError>;

    /// Deletes what the provider keeps of it, after its end.
    async fn forget(
        &self,
        ctx: &CallContext,
        handle: &str,
        staged: Option<&str>,
        places: &[String],
    ) -> Result<(), UpstreamError>;

    /// The answer to a request for text, as if it had been sent alone.
    fn read_text(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        status: u16,
        body: Bytes,
    ) -> Result<TextAnswer, UpstreamError>;

    /// The answer to a request for vectors, as if it had been sent alone.
    fn read_embed(
        &self,
        ctx: &CallContext,
        call: &EmbedCall,
        status: u16,
        body: Bytes,
    ) -> Result<EmbedAnswer, UpstreamError>;
}
