//! The adapter of Perplexity's asynchronous chat completions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, GenerationState, JobProvider, ListedModel, Provider, ProviderReport, ReportCall, Submitted,
    UpstreamError,
};

use super::wire;
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, escape};
use crate::media::{MAX_STATUS_BYTES, Request, Server};
use crate::reports::{MAX_REPORT_BYTES, Unsupported, accepted, id_of};

/// Path of the asynchronous requests below the base URL.
const PATH: &str = "/async/chat/completions";

/// Perplexity's research models. Other models of Perplexity are not supported.
#[derive(Debug)]
pub(crate) struct Perplexity {
    id: Arc<str>,
    server: Server,
}

impl Perplexity {
    /// Builds the provider of the configuration block `id`. Every request carries the credentials.
    pub(crate) fn new(
        id: Arc<str>,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let server = Server::new(base, credentials, http)?;
        Ok(Self { id, server })
    }
}

#[async_trait]
impl JobProvider<ReportCall> for Perplexity {
    fn is_idempotent(&self) -> bool {
        true
    }

    fn check(&self, call: &ReportCall) -> Result<(), Error> {
        let unsupported = Unsupported {
            counts: true,
            ..Unsupported::default()
        };
        unsupported.check(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ReportCall,
        key: &str,
    ) -> Result<Submitted<ProviderReport>, UpstreamError> {
        let body = json!({"request": wire::request(call), "idempotency_key": key});
        let path = self.server.path(PATH);
        let request = Request::json(&path, &body);
        let record: Value = self.server.read(ctx, request, MAX_STATUS_BYTES).await?;
        accepted(&record)
    }

    async fn poll(
        &self,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState<ProviderReport>, UpstreamError> {
        let request = id_of(handle)?;
        let path = self.server.path(&format!("{PATH}/{}", escape(&request, "")));
        let record = self
            .server
            .read_if_found(ctx, Request::get(&path), MAX_REPORT_BYTES);
        record.await?.map_or(Ok(GenerationState::Lost), wire::state)
    }

    /// Does nothing, because the API cannot cancel a request. The provider completes the report and
    /// bills it, so the gateway delivers and charges it.
    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }
}

#[async_trait]
impl Provider for Perplexity {
    fn id(&self) -> &str {
        &self.id
    }

    fn reports(&self) -> Option<&dyn JobProvider<ReportCall>> {
        Some(self)
    }

    /// Checks the key with the list of asynchronous requests, because the API lists no models.
    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let checked = self.server.check_reachable(PATH, timeout);
        match tokio::time::timeout(timeout, checked).await {
            Ok(checked) => checked.map(|()| Vec::new()),
            Err(_) => Err(UpstreamError::timeout("timed out checking the key")),
        }
    }
}
