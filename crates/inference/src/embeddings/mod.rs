//! `POST /v1/embeddings`.

mod routes;
pub(crate) mod service;
mod wire;

pub use routes::routes;

#[cfg(test)]
mod tests;
