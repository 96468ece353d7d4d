//! Who is calling. One extractor reads every header that may have the key, for every endpoint, so no route can be stricter with one of them
//! than with another; then the request is counted.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use tollgate_accounts::{Caller, KeyError, Keys, Limiter};
use tollgate_storage::{Budget, Decision};
use tollgate_types::{Clock, Error, ErrorCode, Retry};

use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::failed_keys::FailedKeys;
use crate::family;

/// What the extractors need.
pub struct Gate {
    /// Keys.
    pub keys: Arc<Keys>,
    /// Requests per minute.
    pub limiter: Arc<Limiter>,
    /// Slows down those who try keys.
    pub failed_keys: FailedKeys,
}

impl Gate {
    /// A gate over these parts.
    pub fn new(keys: Arc<Keys>, limiter: Arc<Limiter>, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys,
            limiter,
            failed_keys: FailedKeys::new(clock),
        }
    }

    /// Who is calling; not counted.
    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        of_family: Option<&[u8]>,
        ctx: &RequestContext,
    ) -> Result<Caller, Error> {
        let key = match extract_key(headers, of_family) {
            Presented::Key(key) => key,
            Presented::Nothing => return Err(missing_key()),
            Presented::Unreadable => return Err(self.refuse(ctx).await),
        };
        match self.keys.authenticate(key).await {
            Ok(caller) => Ok(caller),
            Err(KeyError::Invalid) => Err(self.refuse(ctx).await),
            Err(KeyError::Storage(error)) => {
                let message = "The gateway cannot look up keys at the moment. Retry with backoff.";
                let retry = Retry::After(Duration::from_secs(2));
                Err(Error::new(ErrorCode::Overloaded, message)
                    .with_retry(retry)
                    .with_source(error.to_string()))
            }
        }
    }

    async fn refuse(&self, ctx: &RequestContext) -> Error {
        self.failed_keys.slow_down(ctx.peer).await;
        let message = format!(
            "The API key is malformed, inactive, expired or unknown. Keys of this service begin with '{}'.",
            self.keys.shape().prefix()
        );
        Error::new(ErrorCode::InvalidApiKey, message)
    }

    async fn admit(&self, parts: &Parts, budget: Budget) -> Result<Caller, ApiError> {
        let ctx = context_of(parts)?;
        let of_family = family::key_of(&parts.uri, &parts.headers);
        let admitted = self.admit_caller(&parts.headers, of_family, &ctx, budget).await?;
        ctx.max_cost.check()?;
        Ok(admitted)
    }

    /// Who is calling, counted against the account's budget.
    pub(crate) async fn admit_caller(
        &self,
        headers: &HeaderMap,
        of_family: Option<&[u8]>,
        ctx: &RequestContext,
        budget: Budget,
    ) -> Result<Caller, Error> {
        let caller = self.caller(headers, of_family, ctx).await?;
        self.count(&caller, ctx, budget).await?;
        Ok(caller)
    }

    /// Counts a request of the caller's, unless the budget is spent.
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

fn missing_key() -> Error {
    let message =
        "No API key was supplied. Send it as 'Authorization: Bearer <key>' or as 'x-api-key: <key>'.";
    Error::new(ErrorCode::MissingApiKey, message)
}

/// What a request presents as its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Presented<'a> {
    Key(&'a str),
    Nothing,
    Unreadable,
}

/// `Authorization: Bearer` wins over `x-api-key`, that over the key of the path's own family; another scheme counts as
/// no key.
pub(crate) fn extract_key<'a>(headers: &'a HeaderMap, of_family: Option<&'a [u8]>) -> Presented<'a> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let bytes = value.as_bytes();
        let is_bearer = bytes.len() >= 7 && bytes[..7].eq_ignore_ascii_case(b"bearer ");
        if is_bearer {
            return readable(&bytes[7..]);
        }
        if bytes.eq_ignore_ascii_case(b"bearer") {
            return Presented::Nothing;
        }
    }
    let header = headers.get("x-api-key").map(http::HeaderValue::as_bytes);
    header.or(of_family).map_or(Presented::Nothing, readable)
}

fn readable(bytes: &[u8]) -> Presented<'_> {
    match std::str::from_utf8(bytes).map(str::trim) {
        Ok("") => Presented::Nothing,
        Ok(key) => Presented::Key(key),
        Err(_) => Presented::Unreadable,
    }
}

/// The caller of a POST that starts work: counts against the account's requests per minute.
#[derive(Clone, Debug)]
pub struct WorkCaller(pub Caller);

/// The caller of a read, a delete, a cancel or a count: has a budget of its own.
#[derive(Clone, Debug)]
pub struct ControlCaller(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for WorkCaller
where
    Arc<Gate>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Arc::<Gate>::from_ref(state)
            .admit(parts, Budget::Work)
            .await
            .map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ControlCaller
where
    Arc<Gate>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Arc::<Gate>::from_ref(state)
            .admit(parts, Budget::Control)
            .await
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_are_read_and_bearer_wins() {
        let cases: [(&[(&str, &str)], Presented<'_>); 10] = [
            (&[], Presented::Nothing),
            (&[("authorization", "Bearer k1")], Presented::Key("k1")),
            (&[("authorization", "bearer  k1 ")], Presented::Key("k1")),
            (&[("x-api-key", "k2")], Presented::Key("k2")),
            (
                &[("authorization", "Bearer k1"), ("x-api-key", "k2")],
                Presented::Key("k1"),
            ),
            (&[("authorization", "Basic abc")], Presented::Nothing),
            (
                &[("authorization", "Basic abc"), ("x-api-key", "k2")],
                Presented::Key("k2"),
            ),
            (
                &[("authorization", "Bearer "), ("x-api-key", "k2")],
                Presented::Nothing,
            ),
            (&[("authorization", "k1")], Presented::Nothing),
            (&[("x-api-key", "")], Presented::Nothing),
        ];
        for (pairs, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            assert_eq!(extract_key(&headers, None), expected, "{pairs:?}");
        }
    }

    #[test]
    fn the_key_of_a_family_comes_last() {
        for (name, of_family, expected) in [
            (None, Some("q"), Presented::Key("q")),
            (None, Some(""), Presented::Nothing),
            (Some("x-api-key"), Some("q"), Presented::Key("k")),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(name) = name {
                headers.insert(name, "k".parse().unwrap());
            }
            let found = extract_key(&headers, of_family.map(str::as_bytes));
            assert_eq!(found, expected, "{name:?} {of_family:?}");
        }
    }
}
