//! Amazon Bedrock: Converse and ConverseStream, signed with an account's keys or with a key of Bedrock's own.
//!
//! Credentials are those of the settings. Nothing is asked of a machine's metadata service, and no role is assumed:
//! temporary credentials hold until they expire, and are read anew when the settings are.

mod adapter;
mod credentials;
mod frames;
mod listing;
mod sign;
mod stream;

pub use adapter::Bedrock;
pub use credentials::{AccessKeys, Credentials};

/// The preset.
pub const PRESET: &str = "bedrock";
/// The environment variable that has a key of Bedrock's own (Amazon Bedrock user guide, API keys).
pub const KEY_VARIABLE: &str = "AWS_BEARER_TOKEN_BEDROCK";
/// The environment variables that have an account's keys: id, secret, and the token of temporary ones.
pub const ACCESS_KEY_VARIABLES: [&str; 3] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
/// The environment variables that have the region; the first that is set counts.
pub const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

#[cfg(test)]
mod tests;
