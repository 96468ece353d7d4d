//! Gemini's format, at the Gemini API and at Vertex AI. Requests in this format are forwarded with
//! only the necessary edits, such as the model name; requests in other formats are converted.

mod access;
mod adapter;
mod decisions;
mod embeddings;
mod images;
mod listing;
mod live;
mod reports;
mod stream;
mod surface;
mod videos;

pub use access::Access;
pub use adapter::Gemini;
pub use surface::Surface;

/// Name of the Gemini API's preset in the configuration.
pub const PRESET: &str = "gemini";
/// Default base URL of the Gemini API.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// Environment variables of the API key; the first that is set is used
/// (ai.google.dev/gemini-api/docs/api-key).
pub const KEY_VARIABLES: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Header of the API key.
pub const KEY_HEADER: &str = "x-goog-api-key";
/// Name of Vertex AI's preset in the configuration.
pub const VERTEX_PRESET: &str = "vertex";
/// Environment variables of the Google Cloud location; the first that is set is used.
pub const LOCATION_VARIABLES: [&str; 2] = ["GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"];
/// Environment variable of the Google Cloud project.
pub const PROJECT_VARIABLE: &str = "GOOGLE_CLOUD_PROJECT";
/// Environment variable of the path to a service account's key file
/// (cloud.google.com/docs/authentication/application-default-credentials).
pub const IDENTITY_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

#[cfg(test)]
mod tests;
