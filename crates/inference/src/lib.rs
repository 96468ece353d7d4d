//! Room: text generation, embeddings, moderations, typed decisions, the files that their requests name, and batches.

mod admission;
pub mod batches;
mod capabilities;
pub mod chat_completions;
mod chunks;
pub mod completions;
mod counting;
mod crossing;
pub mod decisions;
pub mod embeddings;
pub mod files;
pub mod generate_content;
mod lenient;
pub mod messages;
pub mod moderations;
mod policy;
pub mod quote;
pub mod responses;
mod structured_output;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_edge::Gate;
use tollgate_edge::origin::PublicUrl;
use tollgate_edge::websocket::Sessions;
use tollgate_pipeline::Pipeline;
use utoipa_axum::router::OpenApiRouter;

use batches::Batches;
use decisions::Calibrations;
use files::Files;
use responses::Kept;

/// What the handlers of this room need.
#[derive(Clone, FromRef)]
pub struct Inference {
    /// Who is calling.
    pub gate: Arc<Gate>,
    /// Makes calls.
    pub pipeline: Arc<Pipeline>,
    /// Keeps responses.
    pub kept: Arc<Kept>,
    /// Keeps files.
    pub files: Arc<Files>,
    /// Keeps the profiles by which probabilities of decisions are corrected.
    pub calibrations: Arc<Calibrations>,
    /// Carries out many requests in one file.
    pub batches: Arc<Batches>,
    /// Makes responses whose callers do not wait.
    pub background: Arc<responses::Background>,
    /// Where the service is reached.
    pub public_url: PublicUrl,
    /// Opens sessions over WebSockets.
    pub sessions: Arc<Sessions>,
}

/// The routes of this room.
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
        .merge(files::routes())
        .merge(batches::routes())
}
