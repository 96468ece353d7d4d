//! Live transcription over a WebSocket. The turn detection of the server is off: each turn ends
//! with a commit of the gateway.

mod openai;
mod vllm;

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_upstream::{
    CallContext, LiveTranscriptionCall, LiveTranscriptionLink, LiveTranscriptionProvider, Permit,
    UpstreamError,
};

use super::presets::{LiveTranscription, LiveTranscriptionWire};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Timeouts, Variant};
use openai::OpenAiLink;
use vllm::VllmLink;

/// Maximum number of events that wait for `next`.
const MAX_WAITING_EVENTS: usize = 10_000;
/// Maximum audio of one message, in bytes. Its base64 form has less than 1 MiB.
const MAX_APPEND_BYTES: usize = 720 << 10;

/// WebSocket of a provider, which opens a connection for each session.
#[derive(Debug)]
pub(super) struct LiveTranscriptionEndpoint {
    row: &'static LiveTranscription,
    base: BaseUrl,
    endpoint: Endpoint,
    http: Arc<HttpClient>,
}

impl LiveTranscriptionEndpoint {
    pub(super) fn new(
        row: &'static LiveTranscription,
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
impl LiveTranscriptionProvider for LiveTranscriptionEndpoint {
    async fn open(
        &self,
        ctx: &CallContext,
        call: &LiveTranscriptionCall,
    ) -> Result<Box<dyn LiveTranscriptionLink>, UpstreamError> {
        let path = match self.row.query {
            "" => self.row.path.to_owned(),
            query => format!("{}?{query}", self.row.path),
        };
        let variant = Variant::new(&self.base, &path);
        let variant = variant.map_err(|error| UpstreamError::connect(error.to_string()))?;
        let socket = self
            .http
            .open_socket(&self.endpoint, variant, Timeouts::of(ctx))
            .await?;
        let error_texts = self.endpoint.error_texts().clone();
        match self.row.wire {
            LiveTranscriptionWire::OpenAi => {
                let mut link = OpenAiLink::new(socket, error_texts, ctx, call);
                link.start().await?;
                Ok(Box::new(link))
            }
            LiveTranscriptionWire::Vllm => {
                let mut link = VllmLink::new(socket, error_texts, ctx);
                link.start(&call.upstream_model).await?;
                Ok(Box::new(link))
            }
        }
    }
}

/// Refuses audio that no hold pays for.
fn check_hold(ctx: &CallContext) -> Result<(), UpstreamError> {
    match matches!(ctx.permit, Permit::Hold(_)) {
        true => Ok(()),
        false => Err(UpstreamError::connect("audio needs a hold")),
    }
}

fn check_waiting(waiting: usize) -> Result<(), UpstreamError> {
    match waiting >= MAX_WAITING_EVENTS {
        true => Err(UpstreamError::protocol("the upstream sent too many events")),
        false => Ok(()),
    }
}

fn invalid_event(text: &str) -> UpstreamError {
    UpstreamError::protocol(format!(
        "the upstream sent an invalid event ({} bytes)",
        text.len()
    ))
}
