//! Makers of pictures and films alike that take what is asked for and are asked for it until it is done. Each says
//! what is its own in a [`Queue`]; all else is here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, ContentStream, ImageCall, ListedModel, Maker, Provider, State, Submitted, UpstreamError,
    VideoCall,
};

use super::server::Server;
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};

/// What is one maker's own. The methods are those of [`Maker`], at a server.
#[async_trait]
pub(crate) trait Queue: fmt::Debug + Send + Sync {
    /// The most pictures of one submission to this model.
    fn most_at_once(&self, model: &str) -> u32 {
        let _ = model;
        1
    }

    /// Refuses what it cannot carry of a call for pictures.
    fn check_pictures(&self, call: &ImageCall) -> Result<(), Error>;

    /// Refuses what it cannot carry of a call for a film.
    fn check_film(&self, call: &VideoCall) -> Result<(), Error>;

    /// Asks for pictures.
    async fn submit_pictures(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError>;

    /// Asks for a film.
    async fn submit_film(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError>;

    /// Asks how it goes.
    async fn poll(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError>;

    /// Says that it is not wanted any more.
    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError>;

    /// The models that it has, or whether it is there at all.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError>;
}

/// A provider with such a queue.
#[derive(Debug)]
pub(crate) struct Queued<Q> {
    id: Arc<str>,
    server: Server,
    queue: Q,
}

impl<Q: Queue> Queued<Q> {
    /// The provider of the configuration block `id`, at this address, with these credentials on every request.
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
impl<Q: Queue> Maker<ImageCall> for Queued<Q> {
    fn most_at_once(&self, upstream_model: &str) -> u32 {
        self.queue.most_at_once(upstream_model)
    }

    fn check(&self, call: &ImageCall) -> Result<(), Error> {
        self.queue.check_pictures(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        self.queue.submit_pictures(&self.server, ctx, call, key).await
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
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
impl<Q: Queue> Maker<VideoCall> for Queued<Q> {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        self.queue.check_film(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        self.queue.submit_film(&self.server, ctx, call, key).await
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
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
impl<Q: Queue> Provider for Queued<Q> {
    fn id(&self) -> &str {
        &self.id
    }

    fn images(&self) -> Option<&dyn Maker<ImageCall>> {
        Some(self)
    }

    fn videos(&self) -> Option<&dyn Maker<VideoCall>> {
        Some(self)
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        tokio::time::timeout(timeout, self.queue.models(&self.server, timeout))
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
