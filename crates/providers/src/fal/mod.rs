//! fal: hundreds of image and video models behind one queue (docs.fal.ai/model-endpoints/queue).

mod adapter;
mod wire;

pub(crate) use adapter::Fal;

/// Name of the preset in the configuration.
pub(crate) const PRESET: &str = "fal";
/// Default base URL.
pub(crate) const BASE_URL: &str = "https://queue.fal.run";
/// Environment variable of the API key.
pub(crate) const KEY_VARIABLE: &str = "FAL_KEY";

#[cfg(test)]
mod tests;
