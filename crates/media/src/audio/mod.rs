//! `POST /v1/audio/speech`, which speaks a text, and `POST /v1/audio/transcriptions`, which writes a recording down, in
//! OpenAI's shape.

mod length;
mod read;
mod routes;
mod service;
mod subtitles;
mod wire;

pub use routes::routes;
pub(crate) use service::narration_demand;
