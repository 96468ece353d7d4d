//! Query strings, with our error shape.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tollgate_types::{Error, ErrorCode};

use crate::error::ApiError;

/// A decoded query string. Unknown parameters are an error when `T` denies unknown fields.
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
                let message = format!("The query string cannot be read: {reason}.");
                let error = Error::new(ErrorCode::InvalidParameter, message);
                Err(ApiError(match named_field(reason) {
                    Some(field) => error.with_param(field),
                    None => error,
                }))
            }
        }
    }
}

/// The field that serde names: "limit: invalid digit…" or "unknown field `x`…".
fn named_field(reason: &str) -> Option<String> {
    let quoted = reason
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split('`').next());
    let led = reason.split_once(": ").map(|(field, _)| field);
    let field = quoted.or(led)?;
    let plain = field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (plain && !field.is_empty()).then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_at_fault_is_named() {
        assert_eq!(
            named_field("unknown field `foo`, expected `limit`").as_deref(),
            Some("foo")
        );
        assert_eq!(
            named_field("limit: invalid digit found in string").as_deref(),
            Some("limit")
        );
        assert_eq!(named_field("something else"), None);
    }
}
