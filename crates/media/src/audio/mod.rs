//! Text to speech (`POST /v1/audio/speech`) and speech to text (`POST /v1/audio/transcriptions` and
//! `POST /v1/audio/translations`), compatible with OpenAI's API.

mod length;
mod read;
mod routes;
mod service;
mod subtitles;
mod wire;

pub use routes::routes;
pub(crate) use service::narration_demand;
pub use service::quote_speech;
