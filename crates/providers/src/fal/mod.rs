//! fal: hundreds of models of pictures and films behind one queue (docs.fal.ai/model-endpoints/queue).

mod adapter;
mod wire;

pub(crate) use adapter::Fal;

/// The preset.
pub(crate) const PRESET: &str = "fal";
/// Where its queue is.
pub(crate) const BASE_URL: &str = "https://queue.fal.run";
/// The environment variable that usually has the key.
pub(crate) const KEY_VARIABLE: &str = "FAL_KEY";

#[cfg(test)]
mod tests;
