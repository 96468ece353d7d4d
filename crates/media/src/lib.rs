//! Room: pictures and films, the jobs that make them, and speech.
//!
//! Suggested reading order: [`jobs`] (what callers see of a job), [`shelf`] (what is kept), `making` (how a job is carried
//! out, whatever it makes), [`images`], [`videos`], [`templates`], [`outputs`]. [`audio`] has no jobs.

pub mod audio;
pub mod compose;
pub mod images;
mod input;
pub mod jobs;
mod making;
mod order;
pub mod outputs;
mod read;
pub mod shelf;
mod sizes;
mod submission;
pub mod templates;
pub mod videos;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_edge::Gate;
use tollgate_edge::origin::PublicUrl;
use tollgate_jobs::{Handler, Jobs};
use utoipa_axum::router::OpenApiRouter;

pub use compose::Recipes;
pub use jobs::Records;
pub use making::Studio;
pub use shelf::Shelf;
pub use templates::Previews;

/// What the handlers of this room need.
#[derive(Clone, FromRef)]
pub struct MediaRoom {
    /// Who is calling.
    pub gate: Arc<Gate>,
    /// Where the service is reached.
    pub public_url: PublicUrl,
    /// Accepts jobs and tells of them.
    pub jobs: Arc<Jobs>,
    /// Writes down what callers see of them.
    pub records: Arc<Records>,
    /// Carries them out.
    pub studio: Arc<Studio>,
    /// What is kept.
    pub shelf: Arc<Shelf>,
    /// What templates look like.
    pub previews: Arc<Previews>,
}

/// What carries the jobs of this room out.
pub fn handlers(studio: &Arc<Studio>) -> Vec<Arc<dyn Handler>> {
    vec![
        Arc::new(compose::Composing::new(studio.clone())),
        Arc::new(making::Making::new(studio.clone(), images::Pictures)),
        Arc::new(making::Making::new(studio.clone(), videos::Films)),
    ]
}

/// The routes of this room.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    jobs::routes()
        .merge(images::routes())
        .merge(videos::routes())
        .merge(compose::routes())
        .merge(templates::routes())
        .merge(outputs::routes())
        .merge(audio::routes())
}
