//! Providers that speak OpenAI's chat format. The caller's bytes are validated, spliced where they must be, and sent
//! on; the answer's bytes come back the same way.

mod adapter;
mod completions;
mod embeddings;
pub(crate) mod listing;
pub mod presets;
mod speech;
mod stream;
mod transcriptions;

pub use adapter::OpenAiCompatible;
pub use presets::{Audio, Auth, Completions, Embeddings, Key, PRESETS, Preset, preset};

#[cfg(test)]
mod tests;
