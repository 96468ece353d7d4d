//! `POST /v1/completions`.

mod routes;
mod service;
mod wire;

pub use routes::routes;
