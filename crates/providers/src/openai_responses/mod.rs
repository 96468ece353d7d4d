//! OpenAI, and others that serve responses, in the format of responses. The caller's bytes are forwarded when they are in
//! it, and written in it otherwise. Nothing is kept at the provider.

mod adapter;
mod stream;

pub use adapter::OpenAiResponses;

/// The preset.
pub const PRESET: &str = "openai-responses";
/// Where it is.
pub const BASE_URL: &str = "https://api.openai.com/v1";
/// The environment variable that usually has the key (platform.openai.com, client SDKs).
pub const KEY_VARIABLE: &str = "OPENAI_API_KEY";

#[cfg(test)]
mod tests;
