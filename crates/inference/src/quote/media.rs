//! The port to the endpoints of media, which another API crate serves.

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::ItemizedQuote;
use tollgate_edge::RequestContext;
use tollgate_types::Error;

/// Endpoint of media whose requests are JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaEndpoint {
    /// `POST /v1/images/generations`
    ImageGenerations,
    /// `POST /v1/videos/generations`
    VideoGenerations,
    /// `POST /v1/videos`
    Videos,
    /// `POST /v1/videos/compose`
    Compositions,
    /// `POST /v1/audio/speech`
    Speech,
}

/// A request to quote, and its caller.
pub struct MediaRequest<'a> {
    /// Endpoint of the quoted request.
    pub endpoint: MediaEndpoint,
    /// Context of the quote.
    pub ctx: &'a RequestContext,
    /// Caller of the quote, who would make the request.
    pub caller: Caller,
    /// Base URL of the gateway, as the caller addressed it.
    pub origin: String,
    /// Body of the quoted request.
    pub body: Bytes,
}

/// Quotes the requests of media endpoints.
#[async_trait]
pub trait MediaQuotes: Send + Sync {
    /// Returns the hold that the endpoint would take for the request now, and writes nothing. Fails
    /// like the endpoint does before its hold, except for rate limits and a low balance.
    async fn quote(&self, request: MediaRequest<'_>) -> Result<ItemizedQuote, Error>;
}
