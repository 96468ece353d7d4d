//! Anthropic's Messages API. Requests in this format are forwarded with only the necessary edits,
//! such as the model name; requests in other formats are converted.

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
