//! `POST /v1/chat/completions`.

mod routes;
mod service;
pub(crate) mod wire;

pub use routes::routes;
