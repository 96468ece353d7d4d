//! `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod count;
mod events;
mod routes;
pub(crate) mod service;
mod wire;

pub use routes::routes;
pub(crate) use routes::{betas, version};
pub(crate) use wire::MessageErrorBody;
