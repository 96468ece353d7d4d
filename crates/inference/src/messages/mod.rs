//! `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod count;
mod events;
mod routes;
mod service;
mod wire;

pub use routes::routes;
