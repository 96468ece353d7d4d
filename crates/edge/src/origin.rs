//! Public address of the service, for the URLs in responses.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use http::HeaderMap;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

use crate::context::context_of;
use crate::error::ApiError;

/// Public URL from the settings, such as `https://api.example.com`. Without it, URLs use the
/// address of the request.
#[derive(Clone, Debug, Default)]
pub struct PublicUrl(pub Option<Arc<str>>);

/// The configured public URL, otherwise scheme and authority of the request's address; without a
/// trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Origin
where
    PublicUrl: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let PublicUrl(configured) = PublicUrl::from_ref(state);
        Ok(Self(match configured {
            Some(configured) => configured.trim_end_matches('/').to_owned(),
            None => {
                let is_forwarded = context_of(parts)?.is_forwarded;
                of_request(&parts.headers, parts.uri.authority(), is_forwarded)
            }
        }))
    }
}

/// Returns the origin from the `host` header. Only the caller sees the result, so the header needs
/// a syntax check only. The scheme is `http`, unless a trusted proxy reports TLS.
fn of_request(headers: &HeaderMap, authority: Option<&Authority>, is_forwarded: bool) -> String {
    let named = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok()?.parse().ok());
    let authority = named.or_else(|| authority.cloned());
    let host = authority.filter(|authority: &Authority| !authority.as_str().contains('@'));
    let host = host.map_or_else(|| "localhost".to_owned(), |host| host.to_string());
    let scheme = match is_https(headers, is_forwarded) {
        true => "https",
        false => "http",
    };
    format!("{scheme}://{host}")
}

/// Whether a trusted proxy reports that it received the request over TLS.
pub(crate) fn is_https(headers: &HeaderMap, is_forwarded: bool) -> bool {
    let scheme = headers.get("x-forwarded-proto");
    is_forwarded && scheme.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_follows_the_host_header() {
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
            assert_eq!(
                of_request(&headers, authority.as_ref(), true),
                expected,
                "{pairs:?}"
            );
            let plain = expected.replace("https:", "http:");
            assert_eq!(
                of_request(&headers, authority.as_ref(), false),
                plain,
                "no trusted proxy: {pairs:?}"
            );
        }
    }
}
