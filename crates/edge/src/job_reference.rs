//! References to accepted jobs: the responses of endpoints that create jobs, and the preference to
//! wait for the result.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_storage::Job;
use tollgate_types::{JobId, JobStatus, Timestamp};
use utoipa::ToSchema;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Reference to an accepted job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobReference {
    /// Id of the job, as used in `GET /v1/jobs/{job_id}`.
    pub job_id: String,
    /// Always `job`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Type of the job, such as `image.generation`.
    pub r#type: String,
    /// Status of the job: `queued`, `in_progress`, `completed`, `failed`, `cancelled` or `expired`.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// URL to poll for the job's status and result.
    pub poll_url: String,
    /// Acceptance time of the job, RFC 3339 in UTC.
    pub created_at: String,
}

impl JobReference {
    /// Returns the reference of a stored job, with URLs below the base URL `origin`.
    pub fn of(origin: &str, job: &Job) -> Self {
        Self::new(origin, job.terms.id, &job.terms.kind, job.status, job.created_at)
    }

    /// Returns a job reference, with URLs below the base URL `origin`.
    pub fn new(origin: &str, id: JobId, kind: &str, status: JobStatus, created_at: Timestamp) -> Self {
        Self {
            job_id: id.to_string(),
            object: "job",
            r#type: kind.to_owned(),
            status: status.as_str(),
            poll_url: format!("{origin}/v1/jobs/{id}"),
            created_at: created_at.to_rfc3339(),
        }
    }
}

/// Returns the job reference with the headers `location` and `retry-after` (choices, J1).
/// `poll_seconds` is the delay before the first poll.
pub fn accepted(reference: &JobReference, status: StatusCode, poll_seconds: u16) -> Response {
    let mut response = (status, Json(reference)).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::try_from(&reference.poll_url) {
        headers.insert(LOCATION, location);
    }
    headers.insert(RETRY_AFTER, HeaderValue::from(poll_seconds));
    response
}

/// Adds the header `preference-applied` with the maximum wait (RFC 7240, section 3).
pub fn preference_applied(response: &mut Response, wait: Duration) {
    if let Ok(applied) = HeaderValue::try_from(format!("wait={}", wait.as_secs())) {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
}

/// Parses the header `prefer: wait=SECONDS` (RFC 7240). The wait is limited to `max`, and `wait`
/// without a value means `max`. Malformed values are ignored. Returns `None` if no valid `wait`
/// exists.
pub fn prefer_wait(headers: &HeaderMap, max: Duration) -> Option<Duration> {
    let values = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        match name.trim().eq_ignore_ascii_case("wait") {
            true if value.is_empty() => Some(max.as_secs()),
            true => value.trim().trim_matches('"').parse::<u64>().ok(),
            false => None,
        }
    });
    seconds.map(|seconds| Duration::from_secs(seconds).min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_and_bounded() {
        let max = Duration::from_secs(240);
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
                prefer_wait(&headers, max),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
