//! Where the service is reached from outside, for the addresses in answers.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use http::HeaderMap;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

use crate::error::ApiError;

/// What the operator says of it, as in `https://api.example.com`; without that every request says it itself.
#[derive(Clone, Debug, Default)]
pub struct PublicUrl(pub Option<Arc<str>>);

/// Scheme and server of the address under which a request has come, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Origin
where
    PublicUrl: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let PublicUrl(said) = PublicUrl::from_ref(state);
        Ok(Self(match said {
            Some(said) => said.trim_end_matches('/').to_owned(),
            None => of_request(&parts.headers, parts.uri.authority()),
        }))
    }
}

/// What a caller says of the host goes back to that caller alone, so it need not be believed: it must only be one.
fn of_request(headers: &HeaderMap, authority: Option<&Authority>) -> String {
    let named = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok()?.parse().ok());
    let authority = named.or_else(|| authority.cloned());
    let host = authority.filter(|authority: &Authority| !authority.as_str().contains('@'));
    let host = host.map_or_else(|| "localhost".to_owned(), |host| host.to_string());
    let scheme = match headers.get("x-forwarded-proto") {
        Some(scheme) if scheme.as_bytes().eq_ignore_ascii_case(b"https") => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_says_where_it_was_sent() {
        for (pairs, authority, expected) in [
            (&[("host", "a.example:8080")][..], None, "http://a.example:8080"),
            (
                &[("host", "a.example"), ("x-forwarded-proto", "HTTPS")],
                None,
                "https://a.example",
            ),
            (&[], Some("b.example"), "http://b.example"),
            (&[("host", "user:secret@a.example")], None, "http://localhost"),
            (&[("host", "not a host")], Some("b.example"), "http://b.example"),
            (&[], None, "http://localhost"),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            let authority = authority.map(|authority| authority.parse().unwrap());
            assert_eq!(of_request(&headers, authority.as_ref()), expected, "{pairs:?}");
        }
    }
}
