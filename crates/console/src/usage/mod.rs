//! `GET /v1/account/usage`: what was consumed, what it cost, what is left.

mod routes;
mod service;
mod wire;

pub use routes::routes;
