//! Access tokens that a provider is shown instead of a key, and where they come from: an account's own key, with which a
//! request for one is signed, or the machine that the gateway runs on.
//!
//! Suggested reading order: `cache`, `service_account`, `metadata`. Tokens and keys are secrets: no error and no log has
//! one, nor any words of a server that issues them.

mod cache;
mod metadata;
mod service_account;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use tollgate_types::Retry;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::http::{HttpClient, Response};

pub(crate) use cache::{Token, TokenCache};
pub(crate) use metadata::Metadata;
pub use metadata::{HOST as METADATA_HOST, HOST_VARIABLE as METADATA_HOST_VARIABLE};
pub(crate) use service_account::ServiceAccount;

/// The most bytes of an answer with a token.
const LIMIT: usize = 64 << 10;
/// The longest life that a token is believed to have.
const LONGEST_LIFE: u64 = 24 * 60 * 60;

/// As whom the gateway asks for tokens.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A service account, by the JSON text of its key.
    ServiceAccount(SecretString),
    /// The machine's own account, by the metadata server at this host.
    Machine(String),
}

/// A token as it was issued.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) secret: SecretString,
    /// How long it holds from now on.
    pub(crate) lifetime: Duration,
}

/// Where tokens come from.
#[async_trait]
pub(crate) trait TokenSource: fmt::Debug + Send + Sync {
    /// A new token. Whoever calls bounds the time.
    async fn issue(&self, http: &HttpClient, patience: Duration) -> Result<Issued, TokenError>;

    /// Where that is, for the operator.
    fn place(&self) -> &str;
}

/// Why there is no token; for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenError {
    /// Whether whoever asks is refused: asking again changes nothing until the operator acts.
    pub(crate) is_refusal: bool,
    /// What happened. It has no secret in it.
    pub(crate) detail: String,
}

impl TokenError {
    /// No token can be had at the moment.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            is_refusal: false,
            detail: detail.into(),
        }
    }

    /// Whoever asks gets none.
    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self {
            is_refusal: true,
            detail: detail.into(),
        }
    }

    /// The failure of a call that needs the token. No byte of the call itself was sent, whatever happened to the request
    /// for the token.
    pub(crate) fn of_call(self) -> UpstreamError {
        let kind = match self.is_refusal {
            false => return UpstreamError::connect(self.detail),
            true => UpstreamErrorKind::Credentials,
        };
        UpstreamError {
            retry: Retry::Never,
            ..UpstreamError::new(kind, UpstreamCause::Connect, self.detail)
        }
    }
}

/// Reads the answer of a server that issues tokens (RFC 6749, section 5.1).
async fn read(response: Response, place: &str) -> Result<Issued, TokenError> {
    let no_token = |what: &str| TokenError::unavailable(format!("{place} answers {what}"));
    let body = response
        .whole(LIMIT)
        .await
        .map_err(|error| no_token(&format!("and breaks off: {}", error.detail)))?;
    let value: Value =
        serde_json::from_slice(&body).map_err(|_| no_token("with something else than JSON"))?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::trim);
    let is_word = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(no_token("with a token of another kind than Bearer"));
    }
    let secret = text("access_token")
        .filter(is_word)
        .ok_or_else(|| no_token("without a token"))?;
    let seconds = value.get("expires_in").and_then(Value::as_u64);
    let seconds = seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| no_token("with a token and not how long it holds"))?;
    Ok(Issued {
        secret: SecretString::from(secret),
        lifetime: Duration::from_secs(seconds.min(LONGEST_LIFE)),
    })
}

#[cfg(test)]
mod tests;
