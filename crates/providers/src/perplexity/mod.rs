//! Reports of Perplexity's deep research models (docs.perplexity.ai/api-reference, async chat
//! completions).

mod adapter;
mod wire;

pub(crate) use adapter::Perplexity;

/// Name of the preset in the configuration.
pub(crate) const PRESET: &str = "perplexity";
/// Default base URL.
pub(crate) const BASE_URL: &str = "https://api.perplexity.ai";
/// Environment variable of the API key (docs.perplexity.ai, client SDKs).
pub(crate) const KEY_VARIABLE: &str = "PERPLEXITY_API_KEY";

#[cfg(test)]
mod tests;
