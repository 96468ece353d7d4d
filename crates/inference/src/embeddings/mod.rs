//! `POST /v1/embeddings`.

mod routes;
mod service;
mod wire;

pub use routes::routes;

#[cfg(test)]
mod tests;
