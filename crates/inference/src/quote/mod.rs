//! `POST /v1/quote`: the maximum cost of a request, without executing it.

mod media;
mod read;
mod routes;
mod service;
mod wire;

pub use media::{MediaEndpoint, MediaQuotes, MediaRequest};
pub use routes::routes;
