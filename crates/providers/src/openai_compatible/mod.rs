//! Providers that speak OpenAI's chat format. For calls in that format, the adapter validates the
//! caller's bytes, edits them where needed, and forwards them; it relays the bytes of the response.
//! Calls in other formats are converted through the common form.

mod adapter;
mod batches;
mod completions;
mod counts;
mod decisions;
mod embeddings;
mod images;
pub(crate) mod listing;
mod live_transcription;
pub mod presets;
mod realtime;
mod speech;
mod stream;
mod transcriptions;
mod videos;

pub use adapter::OpenAiCompatible;
pub use presets::{
    Audio, Auth, Completions, Decisions, Embeddings, ImageBytes, ImageSizeFields, Images, Key, LabelServer,
    LiveTranscription, LiveTranscriptionWire, PRESETS, Preset, Questions, Realtime, Videos, preset,
};

#[cfg(test)]
mod tests;
