//! Webhook signatures: the scheme of Standard Webhooks (standardwebhooks.com). All webhooks of an
//! account use the same secret.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_storage::{Result, WebhookStore};
use tollgate_types::{AccountId, Timestamp};

use crate::vault::Vault;

/// A webhook signing secret.
#[derive(Clone)]
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// Returns the secret in the format of the Standard Webhooks libraries: `whsec_` and base64.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// Returns the signature headers of a request. `id` is the same for every attempt; `at` is the
    /// time of this attempt.
    pub fn headers(&self, id: &str, at: Timestamp, body: &str) -> Vec<(&'static str, String)> {
        let at = at.as_seconds();
        vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signature(&self.0, id, at, body)),
        ]
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

fn signature(secret: &[u8], id: &str, at: impl fmt::Display, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signed = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(signed))
}

/// Webhook secrets of all accounts. No secret is stored: each is derived from the installation's
/// pepper, the account and a number.
#[derive(Clone)]
pub struct WebhookSecrets {
    store: Arc<dyn WebhookStore>,
    vault: Vault,
}

impl WebhookSecrets {
    /// Creates the service over the store of the secrets' numbers.
    pub fn new(store: Arc<dyn WebhookStore>, vault: Vault) -> Self {
        Self { store, vault }
    }

    /// Returns the current secret of an account.
    pub async fn of(&self, account: AccountId) -> Result<WebhookSecret> {
        let number = self.store.secret(account).await?;
        Ok(self.numbered(account, number))
    }

    /// Replaces the secret of an account and returns the new one. `NotFound` if the account does
    /// not exist.
    pub async fn renew(&self, account: AccountId) -> Result<WebhookSecret> {
        let number = self.store.renew_secret(account).await?;
        Ok(self.numbered(account, number))
    }

    fn numbered(&self, account: AccountId, number: u32) -> WebhookSecret {
        WebhookSecret(self.vault.webhook_key(account, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The input and the signature are the example of the specification.
    #[test]
    fn signature_matches_the_specification() {
        let secret = STANDARD.decode("plJ3nmyCDGBKInavdOK15jsl").unwrap();
        let body = r#"{"event_type":"ping","data":{"success":true}}"#;
        let signature = signature(&secret, "msg_loFOjxBNrRLzqYUf", 1_731_705_121, body);
        assert_eq!(signature, "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=");
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = WebhookSecret([7; 32]);
        assert_eq!(secret.reveal(), format!("whsec_{}", STANDARD.encode([7; 32])));
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
    }
}
