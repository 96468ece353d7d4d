//! API crate for media: images, videos and compositions, which are generated in jobs, and speech
//! and transcription.
//!
//! Suggested reading order: [`jobs`] (the API of jobs), [`storage`] (stored media), `generation`
//! (execution of jobs), [`images`], [`videos`], [`compose`], [`templates`], [`outputs`]. The
//! endpoints of [`audio`] create no jobs.

pub mod audio;
pub mod compose;
mod defaults;
mod generation;
pub mod images;
mod input;
mod job_payload;
pub mod jobs;
pub mod outputs;
mod sizes;
pub mod storage;
mod submission;
pub mod templates;
pub mod videos;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_edge::Authenticator;
use tollgate_edge::origin::PublicUrl;
use tollgate_jobs::{Handler, Jobs};
use utoipa_axum::router::OpenApiRouter;

pub use compose::Recipes;
pub use generation::MediaJobs;
pub use jobs::{Records, views};
pub use storage::MediaStorage;
pub use submission::Submission;
pub use templates::Previews;

/// Dependencies of the HTTP handlers of this crate.
#[derive(Clone, FromRef)]
pub struct MediaState {
    /// Authenticates API keys.
    pub authenticator: Arc<Authenticator>,
    /// Public base URL of the gateway.
    pub public_url: PublicUrl,
    /// Job queue: accepts, lists and cancels jobs.
    pub jobs: Arc<Jobs>,
    /// Builds job records for responses and webhooks.
    pub records: Arc<Records>,
    /// Dependencies of the job handlers.
    pub media_jobs: Arc<MediaJobs>,
    /// Storage of inputs and outputs.
    pub storage: Arc<MediaStorage>,
    /// Preview images of the templates.
    pub previews: Arc<Previews>,
}

/// Returns the handlers that execute the jobs of this crate.
pub fn handlers(media_jobs: &Arc<MediaJobs>) -> Vec<Arc<dyn Handler>> {
    vec![
        Arc::new(compose::CompositionHandler::new(media_jobs.clone())),
        Arc::new(generation::GenerationHandler::new(
            media_jobs.clone(),
            images::ImageGenerator,
        )),
        Arc::new(generation::GenerationHandler::new(
            media_jobs.clone(),
            videos::VideoGenerator,
        )),
    ]
}

/// Returns the router of all endpoints of this crate.
pub fn routes() -> OpenApiRouter<MediaState> {
    jobs::routes()
        .merge(images::routes())
        .merge(videos::routes())
        .merge(compose::routes())
        .merge(templates::routes())
        .merge(outputs::routes())
        .merge(audio::routes())
}
