//! Inference API crate: text generation, embeddings, moderations, typed decisions, files and
//! batches.

mod admission;
pub mod batches;
mod capabilities;
pub mod chat_completions;
mod chunks;
pub mod completions;
mod conversion;
mod counting;
pub mod decisions;
pub mod embeddings;
pub mod files;
pub mod generate_content;
mod lenient;
pub mod messages;
mod missing;
pub mod moderations;
mod policy;
pub mod quote;
pub mod research;
pub mod responses;
mod structured_output;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_edge::Authenticator;
use tollgate_edge::origin::PublicUrl;
use tollgate_edge::websocket::Sessions;
use tollgate_pipeline::Pipeline;
use utoipa_axum::router::OpenApiRouter;

use batches::Batches;
use decisions::Calibrations;
use files::Files;
use quote::MediaQuotes;
use research::Research;
use responses::Responses;

/// Shared state of the HTTP handlers of this crate.
#[derive(Clone, FromRef)]
pub struct Inference {
    /// Identifies the caller of a request from its API key.
    pub authenticator: Arc<Authenticator>,
    /// Routes, admits, meters and settles every model call.
    pub pipeline: Arc<Pipeline>,
    /// Stored objects of the Responses API.
    pub responses: Arc<Responses>,
    /// Uploaded and generated files of all accounts.
    pub files: Arc<Files>,
    /// Calibration profiles that correct the probabilities of decisions.
    pub calibrations: Arc<Calibrations>,
    /// Creates batches and executes their lines.
    pub batches: Arc<Batches>,
    /// Executes responses with `background: true`.
    pub background: Arc<responses::Background>,
    /// Accepts and executes research jobs.
    pub research: Arc<Research>,
    /// Quotes the requests of media endpoints.
    pub media_quotes: Arc<dyn MediaQuotes>,
    /// Base URL under which clients reach the service.
    pub public_url: PublicUrl,
    /// Limits and tracks open WebSocket sessions.
    pub sessions: Arc<Sessions>,
}

/// Returns the router of all inference endpoints.
pub fn routes() -> OpenApiRouter<Inference> {
    chat_completions::routes()
        .merge(completions::routes())
        .merge(messages::routes())
        .merge(responses::routes())
        .merge(generate_content::routes())
        .merge(embeddings::routes())
        .merge(moderations::routes())
        .merge(decisions::routes())
        .merge(quote::routes())
        .merge(research::routes())
        .merge(files::routes())
        .merge(batches::routes())
}
