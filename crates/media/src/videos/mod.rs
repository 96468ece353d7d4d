//! `POST /v1/videos/generations`: videos from a prompt or from images, and extensions of other
//! videos (contract, choices J8 and J9).

mod blend;
mod extend;
mod generator;
mod openai;
mod read;
mod routes;
mod service;
mod source;
mod wire;

pub(crate) use generator::{KIND, Params, VideoGenerator, read as read_video};
pub use openai::quote as quote_video;
pub use service::quote;
pub(crate) use service::scene;

use utoipa_axum::router::OpenApiRouter;

use crate::MediaState;

/// Returns the router of the video endpoints, including those compatible with OpenAI.
pub fn routes() -> OpenApiRouter<MediaState> {
    routes::routes().merge(openai::routes())
}
