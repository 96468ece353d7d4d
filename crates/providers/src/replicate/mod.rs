//! Replicate: official and community models of images and videos. Each job is a prediction, which
//! is polled until it is done (replicate.com/docs/reference/http).

mod adapter;
mod wire;

pub(crate) use adapter::Replicate;

/// Name of the preset in the configuration.
pub(crate) const PRESET: &str = "replicate";
/// Default base URL.
pub(crate) const BASE_URL: &str = "https://api.replicate.com/v1";
/// Environment variable of the API token.
pub(crate) const KEY_VARIABLE: &str = "REPLICATE_API_TOKEN";

#[cfg(test)]
mod tests;
