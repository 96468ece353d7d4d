//! Amazon Bedrock: Converse and ConverseStream, signed with AWS access keys or authenticated with a
//! Bedrock API key.
//!
//! Credentials come from the settings. The adapter neither queries a metadata service nor assumes a
//! role. Temporary credentials are valid until they expire; a reload of the settings reads new
//! ones.

mod adapter;
mod credentials;
mod frames;
mod listing;
mod sign;
mod stream;

pub use adapter::Bedrock;
pub use credentials::{AccessKeys, Credentials};

/// Name of the preset in the configuration.
pub const PRESET: &str = "bedrock";
/// Environment variable of a Bedrock API key (Amazon Bedrock user guide, API keys).
pub const KEY_VARIABLE: &str = "AWS_BEARER_TOKEN_BEDROCK";
/// Environment variables of the access key id, the secret and the session token.
pub const ACCESS_KEY_VARIABLES: [&str; 3] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
/// Environment variables of the region; the first that is set is used.
pub const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

#[cfg(test)]
mod tests;
