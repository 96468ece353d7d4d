//! `/v1/realtime`: voice sessions and live transcription.

pub mod client;
mod conversation;
mod crash;
mod faults;
mod items;
mod lifetime;
mod live_transcription;
mod money;
mod operators;
mod proofs;
mod relay;
mod relay_wire;
mod secrets;
mod settings;
mod stages;
mod transcription;
mod turns;

/// Path of the speech endpoint, whose audio the tests send.
const SPEECH: &str = "/v1/audio/speech";
/// The simulator's voice model.
const VOICE: &str = "sim/voice";
/// Prices of [`VOICE`], in nano-credits per token.
const PRICES: Prices = Prices {
    input: 100,
    output: 400,
    input_audio: 1_000,
    output_audio: 2_000,
};

/// Prices of a voice model, in nano-credits per token.
struct Prices {
    input: i64,
    output: i64,
    input_audio: i64,
    output_audio: i64,
}
