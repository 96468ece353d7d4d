//! API crate for voice sessions and live transcription over WebSocket.
//!
//! Suggested reading order: [`mod@routes`] and `socket` (the handshake), `session` (the events of a
//! session and its responses), `cascade` (a response by a transcription, a chat and a speech
//! model), `relay` (a response by a provider's realtime model), `turns` (detection of speech),
//! `audio` (formats of audio).

mod audio;
mod cascade;
mod execution;
mod heard;
mod meters;
mod pacer;
mod payment;
mod relay;
mod routes;
mod secrets;
mod session;
mod socket;
mod state;
mod transcription;
mod turns;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_edge::Authenticator;
use tollgate_edge::websocket::Sessions;

pub use meters::FIRST_AUDIO_SECONDS;
pub use routes::routes;
pub use session::memory::AudioMemory;
pub use state::{ChatVoice, RealtimeSettings, Shared};

/// Shared state of the HTTP handlers of this crate.
#[derive(Clone, FromRef)]
pub struct Realtime {
    /// Identifies the caller of a request from its API key.
    pub authenticator: Arc<Authenticator>,
    /// Limits and tracks open sessions.
    pub sessions: Arc<Sessions>,
    /// Parts that all sessions share.
    pub shared: Arc<Shared>,
}
