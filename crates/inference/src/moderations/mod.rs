//! `POST /v1/moderations`.

mod read;
mod routes;
mod service;
mod wire;

pub use routes::routes;
