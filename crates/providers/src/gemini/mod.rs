//! Gemini in its own format, at the Gemini API and at Vertex AI. The caller's bytes are forwarded when they
//! are in it, and written in it otherwise.

mod access;
mod adapter;
mod decisions;
mod embeddings;
mod films;
mod listing;
mod pictures;
mod stream;
mod surface;

pub use access::Access;
pub use adapter::Gemini;
pub use surface::Surface;

/// The preset.
pub const PRESET: &str = "gemini";
/// Where it is.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// The environment variables that usually have the key (ai.google.dev/gemini-api/docs/api-key).
pub const KEY_VARIABLES: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The header with the key.
pub const KEY_HEADER: &str = "x-goog-api-key";
/// The preset of Vertex AI.
pub const VERTEX_PRESET: &str = "vertex";
/// The environment variables that usually have the location there; the first that is set counts.
pub const LOCATION_VARIABLES: [&str; 2] = ["GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"];
/// The environment variable that usually has the project there.
pub const PROJECT_VARIABLE: &str = "GOOGLE_CLOUD_PROJECT";
/// The environment variable that usually names the file with a service account's key
/// (cloud.google.com/docs/authentication/application-default-credentials).
pub const IDENTITY_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

#[cfg(test)]
mod tests;
