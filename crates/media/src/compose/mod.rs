//! `POST /v1/videos/compose`: short videos with a script, a voice, scenes, captions and music, made
//! from recipes (contract, compose).
//!
//! Suggested reading order: `recipe`, `storyboard` (the input of a render), `read` (request
//! parsing), `step_pricing` (models and prices of the steps), `service` (acceptance), `job`
//! (execution), `rendering` (assembly of the video).

mod job;
mod narration;
mod parallel_steps;
mod payload;
mod read;
mod recipe;
mod rendering;
mod result;
mod routes;
mod script;
mod service;
mod step_pricing;
mod storyboard;
mod wire;

pub(crate) use job::CompositionHandler;
pub use recipe::Recipes;
pub(crate) use result::result_fields;
pub use routes::routes;
pub use service::quote;

/// Job kind of compositions, stored with each job.
pub(crate) const KIND: &str = "video.compose";
