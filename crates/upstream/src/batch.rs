//! Provider-native batches: many requests that the provider executes within a day, at a lower
//! price. A caller submits a batch, polls it by its handle until it has ended, then reads its
//! results.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;

use crate::context::CallContext;
use crate::embed::{EmbedAnswer, EmbedCall};
use crate::error::UpstreamError;
use crate::text::{TextAnswer, TextCall};

/// Operation of the requests in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Text generation, see [`TextCall`].
    Text,
    /// Embeddings, see [`EmbedCall`].
    Embeddings,
}

/// Maximum size of one submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum number of requests.
    pub requests: u32,
    /// Maximum total bytes of the encoded requests.
    pub bytes: u64,
}

/// An encoded request of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    /// The encoded request, without a line break.
    pub text: Bytes,
    /// Metadata that all requests of a submission must share, such as a format version.
    pub dialect: Arc<str>,
}

/// A batch to submit.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Idempotency key, stored by providers that support [`BatchProvider::find`].
    pub key: String,
    /// Operation of the requests.
    pub kind: BatchKind,
    /// Metadata of all requests, see [`EncodedRequest::dialect`].
    pub dialect: Arc<str>,
    /// Encoded requests, one line each.
    pub requests: Vec<Bytes>,
    /// Reference returned by [`BatchProvider::stage`]; `None` if nothing was uploaded.
    pub staged: Option<String>,
}

/// State of a submitted batch.
#[derive(Debug)]
pub enum BatchState {
    /// The batch has not ended.
    Running,
    /// The batch has ended. [`BatchProvider::results`] reads the results at each of these
    /// references. If the batch expired or was cancelled, requests without a result were not
    /// executed.
    Ended(Vec<String>, BatchEnd),
    /// No request was executed, and none will be.
    Failed(UpstreamError),
    /// The provider has no record of the batch, or no longer has one.
    Lost,
}

/// Reason why a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// The provider processed all requests; individual requests may have failed.
    Complete,
    /// The provider's time limit was reached.
    Expired,
    /// The batch was cancelled.
    Cancelled,
}

/// Result of one request of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// Custom id of the request.
    pub name: String,
    /// Response, or the reason why the request was not executed.
    pub answer: BatchAnswer,
}

/// Outcome of a single request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchAnswer {
    /// The request has a response, which may be an error.
    Response {
        /// HTTP status of the response.
        status: u16,
        /// Body in the provider's format.
        body: Bytes,
    },
    /// The request was not executed before the batch expired.
    Expired,
    /// The request was not executed because the batch was cancelled.
    Cancelled,
}

/// Stream of results, in any order. It ends after its first error; if it ends without an error, it
/// is complete.
pub type BatchResults = Pin<Box<dyn Stream<Item = Result<BatchResult, UpstreamError>> + Send>>;

/// Port for provider-native batches.
#[async_trait]
pub trait BatchProvider: Send + Sync {
    /// Whether the operator has enabled native batches. Existing batches are polled even if native
    /// batches are disabled.
    fn is_enabled(&self) -> bool;

    /// Returns the maximum size of one submission.
    fn limits(&self) -> BatchLimits;

    /// Whether a batch may contain requests of this kind.
    fn supports(&self, kind: BatchKind) -> bool;

    /// Encodes a text request as the batch line `name`, like a single request. Sends nothing.
    fn write_text(&self, call: &TextCall, name: &str) -> Result<EncodedRequest, UpstreamError>;

    /// Encodes an embeddings request as the batch line `name`, like a single request. Sends
    /// nothing.
    fn write_embed(&self, call: &EmbedCall, name: &str) -> Result<EncodedRequest, UpstreamError>;

    /// Uploads the requests for a later [`submit`](Self::submit) and returns a reference to the
    /// upload. Executes no request, so callers may repeat the upload. Returns `None` if `submit`
    /// sends the requests itself.
    async fn stage(
        &self,
        ctx: &CallContext,
        submission: &Submission,
    ) -> Result<Option<String>, UpstreamError> {
        let _ = (ctx, submission);
        Ok(None)
    }

    /// Submits the requests for execution and returns the handle of the batch. Callers must not
    /// submit the same requests again, unless the error proves that the provider did not accept
    /// them.
    async fn submit(&self, ctx: &CallContext, submission: &Submission) -> Result<String, UpstreamError>;

    /// Whether [`find`](Self::find) can find an accepted submission.
    fn can_find(&self) -> bool;

    /// Returns the handle of the batch that was submitted under this key; `None` if no such batch
    /// was found.
    async fn find(&self, ctx: &CallContext, key: &str) -> Result<Option<String>, UpstreamError>;

    /// Requests the state of a batch. An error concerns the status request only, not the batch.
    async fn poll(&self, ctx: &CallContext, handle: &str) -> Result<BatchState, UpstreamError>;

    /// Reads the results at `place`, one of the references of [`BatchState::Ended`].
    async fn results(&self, ctx: &CallContext, place: &str) -> Result<BatchResults, UpstreamError>;

    /// Requests cancellation. [`poll`](Self::poll) reports whether the batch stops.
    async fn cancel(&self, ctx: &CallContext, handle: &str) -> Result<(), UpstreamError>;

    /// Deletes the uploaded requests and the results of an ended batch at the provider.
    async fn forget(
        &self,
        ctx: &CallContext,
        handle: &str,
        staged: Option<&str>,
        places: &[String],
    ) -> Result<(), UpstreamError>;

    /// Decodes the response to a text request of a batch, like that to a single request.
    fn read_text(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        status: u16,
        body: Bytes,
    ) -> Result<TextAnswer, UpstreamError>;

    /// Decodes the response to an embeddings request of a batch, like that to a single request.
    fn read_embed(
        &self,
        ctx: &CallContext,
        call: &EmbedCall,
        status: u16,
        body: Bytes,
    ) -> Result<EmbedAnswer, UpstreamError>;
}
