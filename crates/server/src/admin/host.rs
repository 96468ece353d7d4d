//! Check of the `Host` header on the admin listener, against DNS rebinding: a page in an operator's
//! browser could resolve its own name to this listener and read resources without a token. The
//! browser sends that name as `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate_edge::ApiError;
use tollgate_types::{Error, ErrorCode};

/// Host names that the admin listener accepts, besides IP addresses and `localhost`.
pub(crate) type Names = Arc<[String]>;

/// Refuses requests whose host is missing, repeated or not accepted, with status 421. HTTP/1.1
/// sends the host in the header `Host`, HTTP/2 in `:authority`.
pub(crate) async fn check(State(names): State<Names>, request: Request, next: Next) -> Response {
    if is_expected(request.uri().authority(), request.headers(), &names) {
        return next.run(request).await;
    }
    let message = "The 'Host' header must be an IP address, 'localhost' or a name in 'server.admin_hosts'.";
    let error = Error::new(ErrorCode::PermissionDenied, message).with_param("Host");
    let mut response = ApiError(error).into_response();
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response
}

fn is_expected(requested: Option<&Authority>, headers: &HeaderMap, names: &[String]) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (host, is_repeated) = (hosts.next(), hosts.next().is_some());
    let is_known_text = |host: &HeaderValue| {
        let authority = host.to_str().ok().and_then(|host| host.parse().ok());
        authority.is_some_and(|authority| is_known(&authority, names))
    };
    // Of a request with both, both must be accepted.
    !is_repeated
        && (host.is_some() || requested.is_some())
        && host.is_none_or(is_known_text)
        && requested.is_none_or(|authority| is_known(authority, names))
}

fn is_known(authority: &Authority, names: &[String]) -> bool {
    let host = authority.host();
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    literal.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_known() {
        let names = ["gateway.internal".to_owned()];
        let mut localhost = HeaderMap::new();
        localhost.append(HOST, "localhost".parse().unwrap());
        for (authority, headers, expected) in [
            ("127.0.0.1:9464", &HeaderMap::new(), true),
            ("evil.example:9464", &HeaderMap::new(), false),
            ("127.0.0.1:9464", &localhost, true),
            ("evil.example:9464", &localhost, false),
        ] {
            let requested = authority.parse().unwrap();
            assert_eq!(
                is_expected(Some(&requested), headers, &names),
                expected,
                "{authority}"
            );
        }
        for (hosts, expected) in [
            (&["127.0.0.1:9464"][..], true),
            (&["10.1.2.3"], true),
            (&["[::1]:9464"], true),
            (&["localhost:9464"], true),
            (&["LOCALHOST"], true),
            (&["Gateway.Internal:9464"], true),
            (&["evil.example:9464"], false),
            (&["localhost.evil.example"], false),
            (&["127.0.0.1.evil.example"], false),
            (&["gateway.internal.evil.example"], false),
            (&["not a host"], false),
            (&["localhost", "evil.example"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().unwrap());
            }
            assert_eq!(is_expected(None, &headers, &names), expected, "{hosts:?}");
        }
    }
}
