//! Calls that an upstream may execute as a job: generation of images and videos, and research
//! reports. Some upstreams return the output, others a handle to poll; one port serves both.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use tollgate_types::{Error, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::provider::Provider;

/// A call that an upstream may execute as a job.
pub trait JobCall: Clone + Send + Sync + 'static {
    /// Output of the complete job.
    type Output: Send;

    /// Returns the provider's port for this kind of call; `None` if the provider does not support
    /// it.
    fn provider(provider: &dyn Provider) -> Option<&dyn JobProvider<Self>>;

    /// Returns the same call with the provider's name of the model.
    #[must_use]
    fn at(&self, upstream_model: Arc<str>) -> Self;
}

/// An image, video or recording used as input of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Content of the file.
    pub bytes: Bytes,
    /// Media type, such as `image/png`, verified by the leading bytes.
    pub mime_type: Arc<str>,
}

/// Dimensions in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl Size {
    /// Returns the number of pixels, width times height.
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

/// Result of a submission.
#[derive(Debug)]
pub enum Submitted<O = GenerationOutput> {
    /// The output is complete.
    Completed(O),
    /// The output will be generated.
    Accepted {
        /// The adapter's handle for polling. It contains no secrets.
        handle: Vec<u8>,
        /// Wait before the first poll.
        poll_after: Duration,
    },
}

/// State of a submission.
#[derive(Debug)]
pub enum GenerationState<O = GenerationOutput> {
    /// Generation has not started.
    Waiting {
        /// Number of jobs ahead in the queue, if reported.
        ahead: Option<u32>,
    },
    /// Generation is running.
    Running {
        /// Progress in percent, if reported.
        percent: Option<u8>,
    },
    /// The output is complete.
    Completed(O),
    /// The output was generated but is withheld by the upstream's safety check.
    Blocked,
    /// Generation failed and will not be retried by the upstream.
    Failed(UpstreamError),
    /// Generation was cancelled.
    Cancelled,
    /// The upstream has no record of the submission, or no longer has one.
    Lost,
}

/// Generated images or videos, with their usage report.
#[derive(Debug)]
pub struct GenerationOutput {
    /// One item for each image or video.
    pub items: Vec<OutputItem>,
    /// Tokens reported by the upstream; `None` if it reported nothing. The gateway counts the items
    /// itself.
    pub usage: Option<Usage>,
}

/// One image or video.
#[derive(Debug)]
pub struct OutputItem {
    /// Location of the bytes.
    pub content: Content,
    /// The prompt that was used, if the upstream changed it.
    pub revised_prompt: Option<String>,
}

/// Location of the bytes of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the output, contained in the upstream's response.
    Bytes(Bytes),
    /// Reference to an output that the upstream stores, for [`JobProvider::fetch`].
    Upstream(String),
    /// Public URL of the output.
    Address(String),
}

/// Stream of bytes. It ends after its first error.
pub type ContentStream = Pin<Box<dyn Stream<Item = Result<Bytes, UpstreamError>> + Send>>;

/// Port for calls that the upstream may execute as jobs.
#[async_trait]
pub trait JobProvider<C: JobCall>: Send + Sync {
    /// Returns the maximum number of outputs of one submission to this model.
    fn max_outputs(&self, upstream_model: &str) -> u32 {
        let _ = upstream_model;
        1
    }

    /// Whether the upstream executes a submission only once, even if the gateway repeats the
    /// submission with the same key.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Returns `UnsupportedParameter`, naming the parameter of the gateway's API, if the upstream
    /// cannot represent the call.
    fn check(&self, call: &C) -> Result<(), Error> {
        let _ = call;
        Ok(())
    }

    /// Submits the call once, with the idempotency key `key`. Each attempt has a different key; the
    /// repetition of an interrupted submission has the same key. Errors state whether any byte was
    /// sent.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &C,
        key: &str,
    ) -> Result<Submitted<C::Output>, UpstreamError>;

    /// Requests the state of a submission. An error concerns the status request only, not the
    /// generation.
    async fn poll(
        &self,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState<C::Output>, UpstreamError>;

    /// Requests cancellation. [`JobProvider::poll`] reports whether the generation stops.
    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError>;

    /// Downloads the bytes of [`Content::Upstream`]. By default, the upstream stores no outputs.
    async fn fetch(&self, ctx: &CallContext, reference: &str) -> Result<ContentStream, UpstreamError> {
        let _ = (ctx, reference);
        Err(UpstreamError::connect(
            "the provider stores no outputs of this kind",
        ))
    }
}
