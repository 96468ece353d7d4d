//! Replies about the running server and its providers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Addresses on which a running server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerView {
    /// Address of the public API.
    pub listen: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
}

/// A configured provider, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderView {
    /// Name of the provider in the settings.
    pub name: String,
    /// Preset that defines its API format and quirks.
    pub preset: String,
    /// Base URL; null if it follows from other settings.
    pub base_url: Option<String>,
    /// Whether the provider returns simulated responses.
    pub simulated: bool,
    /// Models of the last list that the provider returned. Null if none was requested, because the
    /// gateway offers only models with prices.
    pub models_found: Option<Vec<String>>,
    /// Error of the last request for the list; null if it succeeded.
    pub listing_error: Option<String>,
    /// Models of the provider that the gateway offers, with their health.
    pub targets: Vec<TargetView>,
}

/// A model at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetView {
    /// Name of the model at the provider.
    pub upstream_model: String,
    /// Ids of the catalog models that this target serves.
    pub models: Vec<String>,
    /// `closed`: healthy, receives calls. `open`: failing, other targets are tried first.
    /// `half_open`: receives single trial calls. `cooling_down`: the provider requested a pause.
    pub breaker: String,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
    /// Milliseconds until the target returns to its place in the order; 0 if it has it now.
    pub retry_in_ms: u64,
    /// Last error since the server started; null if there was none.
    pub last_error: Option<String>,
    /// Time of the last error, RFC 3339.
    pub last_error_at: Option<String>,
}
