//! `POST /v1/chat/completions`.

mod events;
mod routes;
mod service;
mod wire;

pub use routes::routes;
