//! Realtime conversations over a WebSocket. The link of a conversation switches the server's turn
//! detection off before anything else, so that only [`RealtimeLink::respond`] starts a response.

pub(super) mod command;
mod events;
mod items;
mod link;
mod response;
pub(super) mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_upstream::{CallContext, RealtimeCall, RealtimeLink, RealtimeProvider, UpstreamError};

use super::presets::Realtime;
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Timeouts, Variant, escape};
use link::Link;

/// Endpoint of realtime conversations.
#[derive(Debug)]
pub(super) struct RealtimeEndpoint {
    row: &'static Realtime,
    base: BaseUrl,
    endpoint: Endpoint,
    http: Arc<HttpClient>,
}

impl RealtimeEndpoint {
    pub(super) fn new(
        row: &'static Realtime,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            row,
            base: base.clone(),
            endpoint: Endpoint::new(base, row.path, credentials)?,
            http,
        })
    }
}

#[async_trait]
impl RealtimeProvider for RealtimeEndpoint {
    fn has_outside_responses(&self) -> bool {
        self.row.has_outside_responses
    }

    fn has_editable_items(&self) -> bool {
        self.row.has_editable_items
    }

    async fn open(
        &self,
        ctx: &CallContext,
        call: &RealtimeCall,
    ) -> Result<Box<dyn RealtimeLink>, UpstreamError> {
        let path = format!("{}?model={}", self.row.path, escape(&call.upstream_model, ""));
        let variant = Variant::new(&self.base, &path);
        let variant = variant.map_err(|error| UpstreamError::connect(error.to_string()))?;
        let socket = self
            .http
            .open_socket(&self.endpoint, variant, Timeouts::of(ctx))
            .await?;
        let mut link = Link::new(self.row, socket, self.endpoint.error_texts().clone(), ctx);
        link.start().await?;
        Ok(Box::new(link))
    }
}
