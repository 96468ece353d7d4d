//! `POST /v1/quote`: the maximum cost of a request, without executing it.

mod read;
mod routes;
mod service;
mod wire;

pub use routes::routes;
