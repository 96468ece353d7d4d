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
    /// Preset that defines the provider's API format and its deviations.
    pub preset: String,
    /// Base URL without its password; null if other settings determine it.
    pub base_url: Option<String>,
    /// Whether the provider returns simulated responses.
    pub simulated: bool,
    /// Names of the models in the provider's last model list. Null if the provider has no
    /// `default_price` in the settings, or if no request for the list has succeeded.
    pub models_found: Option<Vec<String>>,
    /// Error of the last request for the model list; null if it succeeded or no list was requested.
    pub listing_error: Option<String>,
    /// Targets at this provider that serve models of the catalog, with their health.
    pub targets: Vec<TargetView>,
}

/// A model at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetView {
    /// Name of the model at the provider.
    pub upstream_model: String,
    /// Ids of the catalog models that this target serves.
    pub models: Vec<String>,
    /// State of the circuit breaker. `closed`: the target is healthy and receives calls. `open`:
    /// the target fails, so other targets are tried first. `half_open`: the target receives single
    /// trial calls. `cooling_down`: the provider requested a pause.
    pub breaker: String,
    /// Number of failures since the last success.
    pub failures_in_a_row: u32,
    /// Milliseconds until the target returns to its position in the order of targets; 0 if it has
    /// this position now.
    pub retry_in_ms: u64,
    /// Last error since the server started; null if no call failed.
    pub last_error: Option<String>,
    /// Time of the last error, RFC 3339; null if no call failed.
    pub last_error_at: Option<String>,
}
