//! Checks that a request comes from a page of this console: host, scheme and origin.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, Uri};
use tollgate_types::{Error, ErrorCode};

use crate::context::RequestContext;
use crate::origin;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The addresses under which browsers reach the console.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Public URL from the settings, such as `https://api.example.com`.
    pub public_url: Option<Uri>,
    /// Further host names, in addition to the loopback.
    pub hosts: Arc<[String]>,
}

/// How a browser reached the console. It determines the attributes of cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTPS, which a proxy in front of the gateway terminates.
    Https,
    /// HTTP on the loopback of the browser's machine.
    LoopbackHttp,
}

impl Site {
    /// Returns the scheme of a request. Fails if the host is not one of this console, which defends
    /// against DNS rebinding, or if the connection is not encrypted.
    pub fn scheme_of(&self, parts: &Parts, ctx: &RequestContext) -> Result<Scheme, Error> {
        let authority = authority_of(parts).ok_or_else(foreign_host)?;
        let public = self.public_url.as_ref();
        let is_public = public
            .and_then(Uri::host)
            .is_some_and(|host| host.eq_ignore_ascii_case(authority.host()));
        let is_loopback = is_loopback(authority.host());
        let is_named = self
            .hosts
            .iter()
            .any(|name| name.eq_ignore_ascii_case(authority.host()));
        if !is_public && !is_loopback && !is_named {
            return Err(foreign_host());
        }
        let is_public_https = is_public && public.and_then(Uri::scheme_str) == Some("https");
        if is_public_https || origin::is_https(&parts.headers, ctx.is_forwarded) {
            return Ok(Scheme::Https);
        }
        match is_loopback {
            true => Ok(Scheme::LoopbackHttp),
            false => {
                let message = "The console requires HTTPS, except on localhost. Put a proxy with TLS in front of the gateway, and set 'server.public_url' or 'server.trusted_proxies'.";
                Err(Error::new(ErrorCode::PermissionDenied, message).with_param("scheme"))
            }
        }
    }
}

/// Returns the authority that a browser requested; `None` if it is missing, ambiguous or malformed.
fn authority_of(parts: &Parts) -> Option<Authority> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (first, is_repeated) = (hosts.next(), hosts.next().is_some());
    let named: Option<Authority> = match first {
        Some(host) => Some(host.to_str().ok()?.parse().ok()?),
        None => None,
    };
    match (named, parts.uri.authority()) {
        _ if is_repeated => None,
        (Some(named), Some(requested)) if named != *requested => None,
        (named, requested) => named.or_else(|| requested.cloned()),
    }
    .filter(|authority| !authority.as_str().contains('@'))
}

fn is_loopback(host: &str) -> bool {
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let is_loopback_address = literal
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    host.eq_ignore_ascii_case("localhost") || is_loopback_address
}

/// Whether a page of the same origin sent the request. Browsers set `Sec-Fetch-Site`; older ones
/// set only `Origin`.
pub(super) fn is_same_origin(parts: &Parts, scheme: Scheme) -> bool {
    let mut sites = parts.headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        return sites.all(|site| site.as_bytes() == b"same-origin");
    }
    let scheme = match scheme {
        Scheme::Https => "https",
        Scheme::LoopbackHttp => "http",
    };
    let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let expected = authority_of(parts).map(|authority| format!("{scheme}://{authority}"));
    origin.is_some() && origin == expected.as_deref()
}

fn foreign_host() -> Error {
    let message = "The console answers only to its own host names: localhost and the host of 'server.public_url'. Open the console under one of them, or set 'server.public_url'.";
    Error::new(ErrorCode::PermissionDenied, message).with_param("host")
}

#[cfg(test)]
mod tests {
    use tollgate_types::{RequestId, Timestamp};

    use super::*;

    fn scheme(site: &Site, headers: &[(&str, &str)], is_forwarded: bool) -> Result<Scheme, String> {
        let mut request = http::Request::get("/console/api/v1/session");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let ctx = RequestContext::for_background(RequestId::from_u128(1), Timestamp::from_micros(0), None);
        let found = site.scheme_of(&parts, &ctx.forwarded(is_forwarded));
        found.map_err(|error| error.param.unwrap_or_default())
    }

    #[test]
    fn hosts_and_schemes() {
        use Scheme::{Https, LoopbackHttp};
        let public = Site {
            public_url: Some(Uri::from_static("https://api.example.com")),
            hosts: ["gateway.internal".to_owned()].into(),
        };
        let plain = Site {
            public_url: Some(Uri::from_static("http://api.example.com")),
            ..Site::default()
        };
        for (site, headers, is_forwarded, expected) in [
            (&public, &[("host", "api.example.com")][..], false, Ok(Https)),
            (&public, &[("host", "API.example.com:443")], false, Ok(Https)),
            (&public, &[("host", "localhost:8080")], false, Ok(LoopbackHttp)),
            (&public, &[("host", "127.0.0.1:8080")], false, Ok(LoopbackHttp)),
            (&public, &[("host", "[::1]:8080")], false, Ok(LoopbackHttp)),
            (&public, &[("host", "gateway.internal")], false, Err("scheme")),
            (
                &public,
                &[("host", "gateway.internal"), ("x-forwarded-proto", "https")],
                true,
                Ok(Https),
            ),
            (
                &public,
                &[("host", "gateway.internal"), ("x-forwarded-proto", "https")],
                false,
                Err("scheme"),
            ),
            (&public, &[("host", "evil.example")], false, Err("host")),
            (&public, &[("host", "localhost.evil.example")], false, Err("host")),
            (&public, &[("host", "10.0.0.5:8080")], false, Err("host")),
            (
                &public,
                &[("host", "api.example.com"), ("host", "evil.example")],
                false,
                Err("host"),
            ),
            (&public, &[("host", "jo@api.example.com")], false, Err("host")),
            (&public, &[], false, Err("host")),
            (&plain, &[("host", "api.example.com")], false, Err("scheme")),
        ] {
            let expected: Result<Scheme, String> = expected.map_err(str::to_owned);
            assert_eq!(scheme(site, headers, is_forwarded), expected, "{headers:?}");
        }
    }

    #[test]
    fn origins_of_pages() {
        for (headers, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "none")], false),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://localhost:8080"),
                ],
                false,
            ),
            (
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("sec-fetch-site", "cross-site"),
                ],
                false,
            ),
            (&[("origin", "http://localhost:8080")], true),
            (&[("origin", "http://localhost:8081")], false),
            (&[("origin", "https://localhost:8080")], false),
            (&[("origin", "null")], false),
            (&[], false),
        ] {
            let mut request = http::Request::post("/x").header("host", "localhost:8080");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(
                is_same_origin(&parts, Scheme::LoopbackHttp),
                expected,
                "{headers:?}"
            );
        }
    }
}
