//! `POST /v1/chat/completions`.

mod routes;
pub(crate) mod service;
pub(crate) mod wire;

pub use routes::routes;
