//! `POST /v1/quote`: what a request can cost, without carrying it out.

mod read;
mod routes;
mod service;
mod wire;

pub use routes::routes;
