//! `POST /v1/videos/generations`: films from a prompt, from pictures, or that go on with another film (contract, choices J8
//! and J9).

mod alike;
mod blend;
mod craft;
mod openai;
mod read;
mod routes;
mod service;
mod source;
mod wire;

pub(crate) use craft::{Films, KIND, Wish, read as read_film};
pub(crate) use service::scene;

use utoipa_axum::router::OpenApiRouter;

use crate::MediaRoom;

/// The routes of films, in both shapes.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    routes::routes().merge(openai::routes())
}
