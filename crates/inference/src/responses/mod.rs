//! `POST /v1/responses` and `POST /v1/responses/input_tokens`.

mod count;
mod events;
mod routes;
mod service;
mod wire;

pub use routes::routes;
