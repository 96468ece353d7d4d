//! Authentication. One extractor reads every header that can contain the key, so that all endpoints
//! accept the same headers, and then counts the request against the rate limit.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts};
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Method};
use tollgate_accounts::{Caller, ClientSecrets, KeyError, Keys, Limiter, SecretCaller};
use tollgate_storage::{Budget, Decision, StorageError};
use tollgate_types::{Clock, Error, ErrorCode, Retry, SessionId};

use crate::client_dialect;
use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::failed_keys::FailedKeys;
use crate::scopes;
use crate::session::SessionCaller;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Shared state of the extractors [`WorkCaller`] and [`ControlCaller`].
pub struct Authenticator {
    pub keys: Arc<Keys>,
    /// Client secrets, which open realtime sessions.
    pub client_secrets: Arc<ClientSecrets>,
    /// Limiter of the requests per minute.
    pub limiter: Arc<Limiter>,
    /// Counter of invalid keys, which delays callers that try many.
    pub failed_keys: FailedKeys,
}

/// Method and path of a request, which determine the scope that its key must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
}

impl<'a> Target<'a> {
    pub(crate) fn of(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            path: parts.uri.path(),
        }
    }
}

impl Authenticator {
    /// Creates an authenticator that has counted no invalid keys.
    pub fn new(
        keys: Arc<Keys>,
        client_secrets: Arc<ClientSecrets>,
        limiter: Arc<Limiter>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            keys,
            client_secrets,
            limiter,
            failed_keys: FailedKeys::new(clock),
        }
    }

    /// Authenticates the caller and checks the scope that the path requires, without counting the
    /// request.
    pub(crate) async fn caller(
        &self,
        target: Target<'_>,
        headers: &HeaderMap,
        dialect_key: Option<&[u8]>,
        ctx: &RequestContext,
    ) -> Result<Caller, Error> {
        let key = match extract_key(headers, dialect_key) {
            Presented::Key(key) => key,
            Presented::Missing => return Err(missing_key()),
            Presented::Unreadable => return Err(self.refuse(ctx).await),
        };
        match self.keys.authenticate(key).await {
            Ok(caller) => {
                scopes::check(&caller, target.method, target.path)?;
                Ok(caller)
            }
            Err(KeyError::Invalid) => Err(self.refuse(ctx).await),
            Err(KeyError::Storage(error)) => Err(unavailable(&error)),
        }
    }

    /// Authenticates the caller of a client secret, and checks the scope of the path.
    async fn secret_caller(
        &self,
        target: Target<'_>,
        secret: &str,
        ctx: &RequestContext,
    ) -> Result<SecretCaller, Error> {
        match self.client_secrets.authenticate(secret).await {
            Ok(found) => {
                scopes::check(&found.caller, target.method, target.path)?;
                Ok(found)
            }
            Err(KeyError::Invalid) => Err(self.refuse(ctx).await),
            Err(KeyError::Storage(error)) => Err(unavailable(&error)),
        }
    }

    /// Authenticates the key or member that created a client secret again, and counts a request
    /// against the account's budget.
    pub(crate) async fn admit_secret(
        &self,
        target: Target<'_>,
        secret: &SecretCaller,
        ctx: &RequestContext,
        budget: Budget,
    ) -> Result<Caller, Error> {
        let creator = &secret.caller;
        let found = self
            .client_secrets
            .caller_of(creator.account_id(), creator.principal)
            .await;
        match found {
            Ok(caller) => {
                scopes::check(&caller, target.method, target.path)?;
                self.count(&caller, ctx, budget).await?;
                Ok(caller)
            }
            Err(KeyError::Invalid) => Err(self.refuse(ctx).await),
            Err(KeyError::Storage(error)) => Err(unavailable(&error)),
        }
    }

    async fn refuse(&self, ctx: &RequestContext) -> Error {
        self.failed_keys.slow_down(ctx.peer).await;
        let message = format!(
            "The API key is malformed, inactive, expired or unknown. Keys of this service start with '{}'.",
            self.keys.shape().prefix()
        );
        Error::new(ErrorCode::InvalidApiKey, message)
    }

    async fn admit(&self, parts: &Parts, budget: Budget) -> Result<Caller, ApiError> {
        let ctx = context_of(parts)?;
        let admitted = match parts.extensions.get::<SessionCaller>() {
            Some(SessionCaller { caller, .. }) => {
                self.count(caller, &ctx, budget).await?;
                caller.clone()
            }
            None => {
                let dialect_key = client_dialect::key_of(&parts.uri, &parts.headers);
                self.admit_caller(Target::of(parts), &parts.headers, dialect_key, &ctx, budget)
                    .await?
            }
        };
        ctx.max_cost.check()?;
        Ok(admitted)
    }

    /// Authenticates the caller and counts the request against the account's budget.
    pub(crate) async fn admit_caller(
        &self,
        target: Target<'_>,
        headers: &HeaderMap,
        dialect_key: Option<&[u8]>,
        ctx: &RequestContext,
        budget: Budget,
    ) -> Result<Caller, Error> {
        let caller = self.caller(target, headers, dialect_key, ctx).await?;
        self.count(&caller, ctx, budget).await?;
        Ok(caller)
    }

    /// Counts a request of the caller. Returns an error if the budget is exhausted or the counters
    /// fail.
    pub(crate) async fn count(
        &self,
        caller: &Caller,
        ctx: &RequestContext,
        budget: Budget,
    ) -> Result<(), Error> {
        ctx.note(|notes| notes.account = Some(caller.account_id()));
        let note = |decision: Decision| ctx.note(|notes| notes.requests = Some(decision));
        match self.limiter.admit(&caller.account, budget).await {
            Ok(decision) => {
                note(decision);
                Ok(())
            }
            Err((error, decision)) => {
                note(decision);
                Err(error)
            }
        }
    }
}

fn unavailable(error: &StorageError) -> Error {
    let message = "The gateway cannot look up keys at the moment. Retry with backoff.";
    let retry = Retry::After(Duration::from_secs(2));
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(retry)
        .with_source(error.to_string())
}

fn missing_key() -> Error {
    let message =
        "No API key was supplied. Send it as 'Authorization: Bearer <key>' or as 'x-api-key: <key>'.";
    Error::new(ErrorCode::MissingApiKey, message)
}

/// The API key that a request presents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Presented<'a> {
    Key(&'a str),
    Missing,
    Unreadable,
}

/// Returns the API key of a request. Precedence: `Authorization: Bearer`, then `x-api-key`, then
/// the key of the path's dialect. Another scheme, and `Bearer` without a key, count as no key. A
/// header that is repeated with different values is unreadable, because a proxy may read another
/// value.
pub(crate) fn extract_key<'a>(headers: &'a HeaderMap, dialect_key: Option<&'a [u8]>) -> Presented<'a> {
    if is_ambiguous(headers, &AUTHORIZATION) || is_ambiguous(headers, &X_API_KEY) {
        return Presented::Unreadable;
    }
    if let Some(value) = headers.get(AUTHORIZATION) {
        let bytes = value.as_bytes();
        let is_bearer = bytes.len() >= 7 && bytes[..7].eq_ignore_ascii_case(b"bearer ");
        if is_bearer && !bytes[7..].trim_ascii().is_empty() {
            return readable(&bytes[7..]);
        }
    }
    let header = headers.get(X_API_KEY).map(http::HeaderValue::as_bytes);
    header.or(dialect_key).map_or(Presented::Missing, readable)
}

fn is_ambiguous(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    values.any(|value| Some(value) != first)
}

fn readable(bytes: &[u8]) -> Presented<'_> {
    match std::str::from_utf8(bytes).map(str::trim) {
        Ok("") => Presented::Missing,
        Ok(key) => Presented::Key(key),
        Err(_) => Presented::Unreadable,
    }
}

/// Caller of a POST that starts work. The request counts against the account's requests per minute.
#[derive(Clone, Debug)]
pub struct WorkCaller(pub Caller);

/// Caller of a read, delete, cancel or count request. The request counts against a separate budget.
#[derive(Clone, Debug)]
pub struct ControlCaller(pub Caller);

/// Session of the console in which a request was made; `None` for requests with a key.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleSession(pub Option<SessionId>);

impl<S: Send + Sync> FromRequestParts<S> for ConsoleSession {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let caller = parts.extensions.get::<SessionCaller>();
        Ok(Self(caller.map(|caller| caller.session)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WorkCaller
where
    Arc<Authenticator>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Arc::<Authenticator>::from_ref(state)
            .admit(parts, Budget::Work)
            .await
            .map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ControlCaller
where
    Arc<Authenticator>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Arc::<Authenticator>::from_ref(state)
            .admit(parts, Budget::Control)
            .await
            .map(Self)
    }
}

/// Beginning of client secrets.
const SECRET_PREFIX: &str = "ek_";

/// Caller that opens a realtime session with an API key or a client secret. The request counts
/// against the budget of reads.
#[derive(Debug)]
pub struct OpeningCaller {
    /// Caller of the key, or the creator of the secret.
    pub caller: Caller,
    /// The secret, if the caller has no key.
    pub secret: Option<Box<SecretCaller>>,
}

impl<S: Send + Sync> FromRequestParts<S> for OpeningCaller
where
    Arc<Authenticator>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let authenticator = Arc::<Authenticator>::from_ref(state);
        let dialect_key = client_dialect::key_of(&parts.uri, &parts.headers);
        let Presented::Key(key) = extract_key(&parts.headers, dialect_key) else {
            let caller = authenticator.admit(parts, Budget::Control).await?;
            return Ok(Self { caller, secret: None });
        };
        if !key.starts_with(SECRET_PREFIX) {
            let caller = authenticator.admit(parts, Budget::Control).await?;
            return Ok(Self { caller, secret: None });
        }
        let ctx = context_of(parts)?;
        let secret = authenticator.secret_caller(Target::of(parts), key, &ctx).await?;
        authenticator.count(&secret.caller, &ctx, Budget::Control).await?;
        ctx.max_cost.check()?;
        Ok(Self {
            caller: secret.caller.clone(),
            secret: Some(Box::new(secret)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_are_read_and_bearer_wins() {
        let cases: [(&[(&str, &str)], Presented<'_>); 15] = [
            (&[], Presented::Missing),
            (&[("authorization", "Bearer k1")], Presented::Key("k1")),
            (&[("authorization", "bearer  k1 ")], Presented::Key("k1")),
            (&[("x-api-key", "k2")], Presented::Key("k2")),
            (
                &[("authorization", "Bearer k1"), ("x-api-key", "k2")],
                Presented::Key("k1"),
            ),
            (&[("authorization", "Basic abc")], Presented::Missing),
            (
                &[("authorization", "Basic abc"), ("x-api-key", "k2")],
                Presented::Key("k2"),
            ),
            (
                &[("authorization", "Bearer "), ("x-api-key", "k2")],
                Presented::Key("k2"),
            ),
            (&[("authorization", "Bearer")], Presented::Missing),
            (
                &[("authorization", "Bearer k1"), ("authorization", "Bearer k2")],
                Presented::Unreadable,
            ),
            (
                &[("authorization", "Bearer k1"), ("authorization", "Basic k1")],
                Presented::Unreadable,
            ),
            (
                &[("authorization", "Bearer k1"), ("authorization", "Bearer k1")],
                Presented::Key("k1"),
            ),
            (
                &[
                    ("authorization", "Bearer k1"),
                    ("x-api-key", "k1"),
                    ("x-api-key", "k2"),
                ],
                Presented::Unreadable,
            ),
            (&[("authorization", "k1")], Presented::Missing),
            (&[("x-api-key", "")], Presented::Missing),
        ];
        for (pairs, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().unwrap());
            }
            assert_eq!(extract_key(&headers, None), expected, "{pairs:?}");
        }
    }

    #[test]
    fn the_key_of_a_dialect_comes_last() {
        for (name, dialect_key, expected) in [
            (None, Some("q"), Presented::Key("q")),
            (None, Some(""), Presented::Missing),
            (Some("x-api-key"), Some("q"), Presented::Key("k")),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(name) = name {
                headers.insert(name, "k".parse().unwrap());
            }
            let found = extract_key(&headers, dialect_key.map(str::as_bytes));
            assert_eq!(found, expected, "{name:?} {dialect_key:?}");
        }
    }
}
