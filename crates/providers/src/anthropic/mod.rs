//! Anthropic, in its own format. The caller's bytes are forwarded when they are in it, and written in it otherwise.

mod adapter;
mod batches;
mod listing;
mod stream;

pub use adapter::Anthropic;

/// The preset.
pub const PRESET: &str = "anthropic";
/// Where it is.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
/// The environment variable that usually has the key (docs.anthropic.com, client SDKs).
pub const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";

#[cfg(test)]
mod tests;
