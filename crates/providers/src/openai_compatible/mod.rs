//! Providers that speak OpenAI's chat format. The caller's bytes are validated, spliced where they must be, and sent
//! on; the answer's bytes come back the same way.

mod adapter;
mod batches;
mod completions;
mod decisions;
mod embeddings;
mod images;
pub(crate) mod listing;
pub mod presets;
mod speech;
mod stream;
mod transcriptions;
mod videos;

pub use adapter::OpenAiCompatible;
pub use presets::{
    Audio, Auth, Completions, Decisions, Embeddings, Images, Key, LabelServer, PRESETS, PictureBytes,
    PictureSize, Preset, Questions, Videos, preset,
};

#[cfg(test)]
mod tests;
