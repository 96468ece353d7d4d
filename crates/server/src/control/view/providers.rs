//! Answers about providers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A provider in use, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderView {
    /// Name of its block.
    pub name: String,
    /// What it speaks, and its quirks.
    pub preset: String,
    /// Where it is; null where that follows from other settings.
    pub base_url: Option<String>,
    /// Whether its answers are simulated.
    pub simulated: bool,
    /// The models that it said it has at the start or the last reload; null when it was not asked, since only models with
    /// prices are offered.
    pub models_found: Option<Vec<String>>,
    /// Why it did not say.
    pub listing_error: Option<String>,
    /// Its models that are offered, by their names there.
    pub targets: Vec<TargetView>,
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetView {
    /// Its name at the provider.
    pub upstream_model: String,
    /// The models that lead there.
    pub models: Vec<String>,
    /// `closed`: it is called. `open`: it failed, and others are called first. `half_open`: single calls try it again.
    /// `cooling_down`: it asked for a pause.
    pub breaker: String,
    /// Failures since it answered last.
    pub failures_in_a_row: u32,
    /// Milliseconds until it is called again in its own place.
    pub retry_in_ms: u64,
    /// What went wrong last, since the server started.
    pub last_error: Option<String>,
    /// When, RFC 3339.
    pub last_error_at: Option<String>,
}
