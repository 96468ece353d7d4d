//! Response body of the webhook secret API.

use serde::Serialize;
use tollgate_accounts::WebhookSecret;
use utoipa::ToSchema;

/// Secret that signs webhook requests to the account.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookSecretBody {
    /// Always `webhook_secret`.
    object: &'static str,
    /// `whsec_` followed by the secret in base64, as Standard Webhooks libraries expect it.
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
