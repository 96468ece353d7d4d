//! OpenAI's Responses API, on OpenAI's servers and others. Requests in this format are forwarded
//! with only the necessary edits, such as the model name; requests in other formats are converted.
//! Requests disable the storage of responses at the provider.

mod adapter;
mod reports;
mod stream;

pub use adapter::OpenAiResponses;
pub(crate) use reports::ReportsEndpoint;

/// Name of the preset in the configuration.
pub const PRESET: &str = "openai-responses";
/// Default base URL.
pub const BASE_URL: &str = "https://api.openai.com/v1";
/// Environment variable of the API key (platform.openai.com, client SDKs).
pub const KEY_VARIABLE: &str = "OPENAI_API_KEY";

#[cfg(test)]
mod tests;
