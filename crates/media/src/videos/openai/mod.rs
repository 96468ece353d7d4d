//! `/v1/videos`: the same jobs as films' of `POST /v1/videos/generations`, in the shape that OpenAI's clients know.

mod assets;
mod read;
mod routes;
mod service;
mod wire;

pub use routes::routes;
