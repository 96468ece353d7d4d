//! `POST /v1/videos/compose`: short films of a script, a voice, scenes, captions and music, by recipes (contract, compose).
//!
//! Suggested reading order: `recipe`, `storyboard` (what a film is made from), `read`, `cast` (who makes what, for how much),
//! `service` (how it is accepted), `composing` (how it is carried out), `cutting` (how the film is put together).

mod cast;
mod composing;
mod cutting;
mod order;
mod read;
mod recipe;
mod result;
mod routes;
mod script;
mod service;
mod speaking;
mod stage;
mod storyboard;
mod wire;

pub(crate) use composing::Composing;
pub use recipe::Recipes;
pub(crate) use result::shown;
pub use routes::routes;

/// The name of the kind.
pub(crate) const KIND: &str = "video.compose";
