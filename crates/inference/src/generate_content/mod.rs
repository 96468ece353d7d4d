//! Gemini's format: `POST /v1/models/{model}:generateContent` and related actions, also under
//! `/v1beta`.

mod count;
pub(crate) mod embed;
mod events;
mod routes;
pub(crate) mod service;
mod wire;

pub use routes::routes;
