//! `GET /v1/templates` and its two halves: prompts that are known to work, and what they are seen by (contract, Templates).
//! How one blends with a request is in `images` and `videos`.

mod preview;
mod routes;
mod service;
mod wire;

pub use preview::Previews;
pub use routes::routes;
