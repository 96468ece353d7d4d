//! Anthropic's Messages API. Bodies in this format are forwarded unchanged; others are converted.

mod adapter;
mod batches;
mod listing;
mod stream;

pub use adapter::Anthropic;

/// Name of the preset in the configuration.
pub const PRESET: &str = "anthropic";
/// Default base URL.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
/// Environment variable of the API key (docs.anthropic.com, client SDKs).
pub const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";

#[cfg(test)]
mod tests;
