//! OpenAI's Responses API, on OpenAI's servers and others. Bodies in this format are forwarded
//! unchanged; others are converted. The provider stores no response.

mod adapter;
mod stream;

pub use adapter::OpenAiResponses;

/// Name of the preset in the configuration.
pub const PRESET: &str = "openai-responses";
/// Default base URL.
pub const BASE_URL: &str = "https://api.openai.com/v1";
/// Environment variable of the API key (platform.openai.com, client SDKs).
pub const KEY_VARIABLE: &str = "OPENAI_API_KEY";

#[cfg(test)]
mod tests;
