//! Query strings, with errors in the API's format.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tollgate_types::{Error, ErrorCode};

use crate::error::ApiError;

/// A decoded query string. Unknown parameters are an error if `T` denies unknown fields.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let text = rejection.body_text();
                let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason);
                Err(ApiError(refusal(reason)))
            }
        }
    }
}

/// Returns the error for a serde message: ``x: unknown field `x`, expected …``, ``missing field `x`
/// `` or `limit: invalid digit …`.
fn refusal(reason: &str) -> Error {
    let quoted = |start: &str| {
        let (_, rest) = reason.split_once(start)?;
        rest.split_once('`')
    };
    if let Some((name, rest)) = quoted("unknown field `") {
        let shown: String = name.chars().take(60).collect();
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let message = match known.is_empty() {
            true => format!("Unknown query parameter '{shown}'. Remove it."),
            false => {
                let known = known.join(", ");
                format!("Unknown query parameter '{shown}'. Check the spelling or remove it. Known: {known}.")
            }
        };
        return Error::new(ErrorCode::InvalidParameter, message).with_param(shown);
    }
    if let Some((name, _)) = quoted("missing field `") {
        let message = format!("Query parameter '{name}' is missing.");
        return Error::new(ErrorCode::InvalidParameter, message).with_param(name);
    }
    if let Some((name, _)) = quoted("duplicate field `") {
        let message = format!("Query parameter '{name}' is repeated.");
        return Error::new(ErrorCode::InvalidParameter, message).with_param(name);
    }
    let named = reason.split_once(": ").filter(|(name, _)| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.[]".contains(&byte);
        !name.is_empty() && name.bytes().all(is_plain)
    });
    let Some((name, what)) = named else {
        return Error::new(ErrorCode::InvalidParameter, "The query string is malformed.");
    };
    let kind = match what {
        _ if what.contains("digit") || what.contains("integer") || what.contains("too large") => {
            "is not an integer or is out of range"
        }
        _ if what.contains("float") => "is not a number",
        _ if what.contains("`true`") => "is not true or false",
        _ => "has an invalid value",
    };
    Error::new(
        ErrorCode::InvalidParameter,
        format!("Query parameter '{name}' {kind}."),
    )
    .with_param(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        limit: Option<u32>,
        all: Option<bool>,
        share: Option<f64>,
    }

    /// Detects changes of serde's wording, from which the messages are derived.
    #[tokio::test]
    async fn query_errors_have_stable_messages() {
        for (query, code, param, message) in [
            (
                "foo=1",
                ErrorCode::InvalidParameter,
                "foo",
                "Unknown query parameter 'foo'. Check the spelling or remove it. Known: limit, all, share.",
            ),
            (
                "limit=abc",
                ErrorCode::InvalidParameter,
                "limit",
                "Query parameter 'limit' is not an integer or is out of range.",
            ),
            (
                "limit=",
                ErrorCode::InvalidParameter,
                "limit",
                "Query parameter 'limit' is not an integer or is out of range.",
            ),
            (
                "limit=99999999999",
                ErrorCode::InvalidParameter,
                "limit",
                "Query parameter 'limit' is not an integer or is out of range.",
            ),
            (
                "all=maybe",
                ErrorCode::InvalidParameter,
                "all",
                "Query parameter 'all' is not true or false.",
            ),
            (
                "share=x",
                ErrorCode::InvalidParameter,
                "share",
                "Query parameter 'share' is not a number.",
            ),
            (
                "all=true&all=true",
                ErrorCode::InvalidParameter,
                "all",
                "Query parameter 'all' is repeated.",
            ),
        ] {
            let request = http::Request::get(format!("/v1/jobs?{query}")).body(()).unwrap();
            let (mut parts, ()) = request.into_parts();
            let refused = Query::<Sample>::from_request_parts(&mut parts, &()).await;
            let error = refused.map(|Query(query)| query).unwrap_err().0;
            assert_eq!(
                (error.code, error.param.as_deref()),
                (code, Some(param)),
                "{query}"
            );
            assert_eq!(error.message, message);
        }
    }
}
