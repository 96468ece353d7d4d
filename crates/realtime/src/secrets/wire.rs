//! Bodies of requests and responses, for the API document.

#![expect(dead_code, reason = "the fields describe the bodies")]

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Request for a client secret.
#[derive(Deserialize, ToSchema)]
pub(crate) struct CreateClientSecret {
    /// Expiry of the secret. By default, it expires after 600 seconds.
    expires_after: Option<ExpiresAfter>,
    /// Configuration of the sessions, as in `session.update`, with `type` and `model`.
    #[schema(value_type = Option<Object>)]
    session: Option<Value>,
    /// Maximum cost of all sessions together, in credits.
    #[schema(example = "0.50")]
    max_cost: Option<String>,
    /// Maximum duration of each session, in seconds.
    #[schema(minimum = 1, maximum = 86400)]
    max_seconds: Option<u32>,
    /// Origins of the pages that may use the secret, such as `https://example.com`. By default, any
    /// page and any program may use it.
    #[schema(max_items = 100)]
    allowed_origins: Option<Vec<String>>,
}

/// Expiry of a client secret.
#[derive(Deserialize, ToSchema)]
struct ExpiresAfter {
    /// `created_at`.
    anchor: Option<String>,
    /// Time until the expiry, in seconds.
    #[schema(minimum = 10, maximum = 7200)]
    seconds: Option<u64>,
}

/// A new client secret, which no other response shows.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedClientSecret {
    /// The secret: `ek_` and 40 letters and digits.
    value: String,
    /// Expiry, in seconds since the Unix epoch.
    expires_at: i64,
    /// Configuration of the sessions, with the defaults.
    #[schema(value_type = Object)]
    session: Value,
}

/// Configuration of a session in the beta format, and the response with its `client_secret`.
#[derive(Deserialize, Serialize, ToSchema)]
pub(crate) struct CreateSession {
    /// Model of the session.
    model: Option<String>,
    /// Other settings, as in `session.update`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    settings: serde_json::Map<String, Value>,
}
