//! Bodies.

use serde::Serialize;
use tollgate_accounts::WebhookSecret;
use utoipa::ToSchema;

/// What posts to the account are signed with.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookSecretBody {
    /// `webhook_secret`.
    object: &'static str,
    /// `whsec_` and the secret as base64, as libraries of Standard Webhooks want it.
    secret: String,
}

impl From<WebhookSecret> for WebhookSecretBody {
    fn from(secret: WebhookSecret) -> Self {
        Self {
            object: "webhook_secret",
            secret: secret.reveal(),
        }
    }
}
