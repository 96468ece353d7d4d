//! `GET /v1/models` and `GET /v1/models/{model}`.

mod dialects;
mod routes;
mod wire;

pub use routes::routes;
