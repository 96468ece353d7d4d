//! Prompt templates for images and videos, and their previews: `GET /v1/templates`, `GET
//! /v1/images/templates` and `GET /v1/videos/templates` (contract, Templates). `images` and
//! `videos` apply a template to a request.

mod preview;
mod routes;
mod service;
mod wire;

pub use preview::Previews;
pub use routes::routes;
