//! What posts to accounts are signed with: the scheme of Standard Webhooks (standardwebhooks.com). Every post to an account is
//! signed with the same secret, whatever it tells.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_storage::{Result, WebhookStore};
use tollgate_types::{AccountId, Timestamp};

use crate::vault::Vault;

/// A secret that posts are signed with.
#[derive(Clone)]
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// The secret, as libraries want it.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// The headers of a post: the id is the same however often it is sent, the time is that of this attempt.
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

/// Every account's secret. They are kept nowhere: each follows from the installation's pepper and a number.
#[derive(Clone)]
pub struct WebhookSecrets {
    store: Arc<dyn WebhookStore>,
    vault: Vault,
}

impl WebhookSecrets {
    /// Secrets whose numbers are in this store.
    pub fn new(store: Arc<dyn WebhookStore>, vault: Vault) -> Self {
        Self { store, vault }
    }

    /// The secret that an account's posts are signed with.
    pub async fn of(&self, account: AccountId) -> Result<WebhookSecret> {
        let number = self.store.secret(account).await?;
        Ok(self.numbered(account, number))
    }

    /// Another secret, which an account's posts are signed with from now on. `NotFound` when there is no such account.
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

    /// The example of the specification.
    #[test]
    fn signatures_are_those_of_the_scheme() {
        let secret = STANDARD.decode("plJ3nmyCDGBKInavdOK15jsl").unwrap();
        let body = r#"{"event_type":"ping","data":{"success":true}}"#;
        let signature = signature(&secret, "msg_loFOjxBNrRLzqYUf", 1_731_705_121, body);
        assert_eq!(signature, "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=");
    }

    #[test]
    fn a_secret_is_shown_when_it_is_asked_for_and_not_otherwise() {
        let secret = WebhookSecret([7; 32]);
        assert_eq!(secret.reveal(), format!("whsec_{}", STANDARD.encode([7; 32])));
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
    }
}
