//! `POST /v1/completions`.

mod routes;
pub(crate) mod service;
mod wire;

pub use routes::routes;
