//! `/v1/messages/batches`: the same in Anthropic's shape. Requests come in the body, and are kept as a file of lines.

mod routes;
mod service;
mod wire;

pub use routes::routes;
