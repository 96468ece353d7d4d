//! `/v1/messages/batches`: batches in Anthropic's format. The requests are in the body and are
//! stored as a file of lines.

mod routes;
mod service;
mod wire;

pub use routes::routes;
