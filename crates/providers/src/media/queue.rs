//! Image and video providers with a job queue. The gateway polls the state of each job. Each
//! provider implements [`QueueAdapter`]; this module contains the common part.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, ContentStream, GenerationState, ImageCall, JobProvider, ListedModel, Provider, Submitted,
    UpstreamError, VideoCall,
};

use super::server::Server;
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};

/// The provider-specific part of a [`QueueProvider`]. Its methods are those of [`JobProvider`],
/// with the server as a parameter.
#[async_trait]
pub(crate) trait QueueAdapter: fmt::Debug + Send + Sync {
    /// Returns the maximum number of images of one submission to this model.
    fn max_outputs(&self, model: &str) -> u32 {
        let _ = model;
        1
    }

    /// Returns an error if the image call has unsupported parameters.
    fn check_images(&self, call: &ImageCall) -> Result<(), Error>;

    /// Returns an error if the video call has unsupported parameters.
    fn check_video(&self, call: &VideoCall) -> Result<(), Error>;

    /// Submits an image job.
    async fn submit_images(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError>;

    /// Submits a video job.
    async fn submit_video(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError>;

    /// Requests the state of a job.
    async fn poll(
        &self,
        server: &Server,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState, UpstreamError>;

    /// Requests the cancellation of a job.
    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError>;

    /// Lists the models. For providers without a model list, checks at most that the server is
    /// reachable.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError>;
}

/// A provider with a job queue.
#[derive(Debug)]
pub(crate) struct QueueProvider<Q> {
    id: Arc<str>,
    server: Server,
    queue: Q,
}

impl<Q: QueueAdapter> QueueProvider<Q> {
    /// Builds the provider of the configuration block `id`. Every request carries the credentials.
    pub(crate) fn new(
        id: Arc<str>,
        queue: Q,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let server = Server::new(base, credentials, http)?;
        Ok(Self { id, server, queue })
    }
}

#[async_trait]
impl<Q: QueueAdapter> JobProvider<ImageCall> for QueueProvider<Q> {
    fn max_outputs(&self, upstream_model: &str) -> u32 {
        self.queue.max_outputs(upstream_model)
    }

    fn check(&self, call: &ImageCall) -> Result<(), Error> {
        self.queue.check_images(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        self.queue.submit_images(&self.server, ctx, call, key).await
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        self.queue.poll(&self.server, ctx, handle).await
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        self.queue.cancel(&self.server, ctx, handle).await
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        self.server.download(ctx, own).await
    }
}

#[async_trait]
impl<Q: QueueAdapter> JobProvider<VideoCall> for QueueProvider<Q> {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        self.queue.check_video(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        self.queue.submit_video(&self.server, ctx, call, key).await
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        self.queue.poll(&self.server, ctx, handle).await
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        self.queue.cancel(&self.server, ctx, handle).await
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        self.server.download(ctx, own).await
    }
}

#[async_trait]
impl<Q: QueueAdapter> Provider for QueueProvider<Q> {
    fn id(&self) -> &str {
        &self.id
    }

    fn images(&self) -> Option<&dyn JobProvider<ImageCall>> {
        Some(self)
    }

    fn videos(&self) -> Option<&dyn JobProvider<VideoCall>> {
        Some(self)
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        tokio::time::timeout(timeout, self.queue.models(&self.server, timeout))
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
