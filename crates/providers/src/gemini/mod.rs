//! Gemini in its own format. The caller's bytes are forwarded when they
//! are in it, and written in it otherwise.

mod access;
mod adapter;
mod embeddings;
mod listing;
mod stream;

pub use access::Access;
pub use adapter::Gemini;

/// The preset.
pub const PRESET: &str = "gemini";
/// Where it is.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// The environment variables that usually have the key (ai.google.dev/gemini-api/docs/api-key).
pub const KEY_VARIABLES: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The header with the key.
pub const KEY_HEADER: &str = "x-goog-api-key";

#[cfg(test)]
mod tests;
