//! Access tokens, which some providers need instead of a key. A token comes from one of two
//! sources: a service account's private key, which signs the token request, or the machine's
//! metadata server.
//!
//! Suggested reading order: `cache`, `service_account`, `metadata`. Tokens and keys are secrets:
//! errors and logs contain none of them, and no messages of a token server.

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

/// Maximum size of a token response, in bytes.
const LIMIT: usize = 64 << 10;
/// Maximum accepted lifetime of a token, in seconds.
const MAX_TOKEN_LIFETIME_SECONDS: u64 = 24 * 60 * 60;

/// Identity of the gateway at the token server.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A service account, identified by the JSON text of its key.
    ServiceAccount(SecretString),
    /// The machine's own account, with the host of its metadata server.
    Machine(String),
}

/// A newly issued token.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) secret: SecretString,
    /// Lifetime that the server reported, at most [`MAX_TOKEN_LIFETIME_SECONDS`].
    pub(crate) lifetime: Duration,
}

/// Requests tokens for one identity.
#[async_trait]
pub(crate) trait TokenSource: fmt::Debug + Send + Sync {
    /// Requests a new token. The caller enforces `timeout`.
    async fn issue(&self, http: &HttpClient, timeout: Duration) -> Result<Issued, TokenError>;

    /// Returns the description of the source, for the operator.
    fn description(&self) -> &str;
}

/// Reason why no token is available, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenError {
    /// Whether the server rejected the identity. In that case, a retry is useless until the
    /// operator acts.
    pub(crate) is_refusal: bool,
    /// Description of the problem, without secrets.
    pub(crate) detail: String,
}

impl TokenError {
    /// Creates the error of a problem that may be temporary.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            is_refusal: false,
            detail: detail.into(),
        }
    }

    /// Creates the error of a rejected identity.
    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self {
            is_refusal: true,
            detail: detail.into(),
        }
    }

    /// Converts the error to that of the call that needs the token. No byte of that call was sent.
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

/// Parses a token response (RFC 6749, section 5.1).
async fn read(response: Response, description: &str) -> Result<Issued, TokenError> {
    let invalid_answer = |what: &str| TokenError::unavailable(format!("{description} {what}"));
    let body = response
        .whole(LIMIT)
        .await
        .map_err(|error| invalid_answer(&format!("sent an unreadable response: {}", error.detail)))?;
    let value: Value =
        serde_json::from_slice(&body).map_err(|_| invalid_answer("returned a body that is not JSON"))?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::trim);
    let is_word = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(invalid_answer("returned a token that is not a bearer token"));
    }
    let secret = text("access_token")
        .filter(is_word)
        .ok_or_else(|| invalid_answer("returned no token"))?;
    let seconds = value.get("expires_in").and_then(Value::as_u64);
    let seconds = seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| invalid_answer("returned a token without a valid `expires_in`"))?;
    Ok(Issued {
        secret: SecretString::from(secret),
        lifetime: Duration::from_secs(seconds.min(MAX_TOKEN_LIFETIME_SECONDS)),
    })
}

#[cfg(test)]
mod tests;
