//! How the acceptance of a job is answered, and how callers say that they wait for it.

use std::time::Duration;

use axum::Json;
use axum::http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};

use crate::jobs::JobReference;

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// When to poll first.
const SOON: HeaderValue = HeaderValue::from_static("2");

/// A 200 with the reference, `location` and `retry-after` (choices, J1).
pub(crate) fn response(reference: &JobReference) -> Response {
    let mut response = Json(reference).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::try_from(&reference.poll_url) {
        headers.insert(LOCATION, location);
    }
    headers.insert(RETRY_AFTER, SOON);
    response
}

/// `prefer: wait=SECONDS` (RFC 7240), at most `most`. What cannot be read is no preference.
pub(crate) fn prefer_wait(headers: &HeaderMap, most: Duration) -> Option<Duration> {
    let values = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        match name.trim().eq_ignore_ascii_case("wait") {
            true if value.is_empty() => Some(most.as_secs()),
            true => value.trim().trim_matches('"').parse::<u64>().ok(),
            false => None,
        }
    });
    seconds.map(|seconds| Duration::from_secs(seconds).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_and_bounded() {
        let most = Duration::from_secs(240);
        for (value, expected) in [
            ("wait=10", Some(10)),
            ("respond-async, wait=10", Some(10)),
            ("Wait = \"7\"", Some(7)),
            ("wait", Some(240)),
            ("wait=9999", Some(240)),
            ("wait=soon", None),
            ("respond-async", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(PREFER, HeaderValue::from_static(value));
            assert_eq!(
                prefer_wait(&headers, most),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
