//! Replicate: models of pictures and films by their makers and by anybody, each a prediction that is asked for until
//! it is done (replicate.com/docs/reference/http).

mod adapter;
mod wire;

pub(crate) use adapter::Replicate;

/// The preset.
pub(crate) const PRESET: &str = "replicate";
/// Where it is.
pub(crate) const BASE_URL: &str = "https://api.replicate.com/v1";
/// The environment variable that usually has the key.
pub(crate) const KEY_VARIABLE: &str = "REPLICATE_API_TOKEN";

#[cfg(test)]
mod tests;
