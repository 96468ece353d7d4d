//! HTTP handlers of the job endpoints, and the responses of other endpoints that accept jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Origin, Query, sse};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{JobList, JobRecord, JobReference, ListQuery, WaitQuery};
use crate::MediaState;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Value of the header `retry-after` for jobs that have not ended, in seconds.
const FIRST_POLL_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// Returns the router of the job endpoints.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs))
        .routes(routes!(get_job))
        .routes(routes!(follow_job))
        .routes(routes!(cancel_job))
}

/// Lists the jobs of the account, newest first.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "Jobs", operation_id = "list_jobs", params(ListQuery),
    responses((status = 200, body = JobList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_jobs(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Query(query): Query<ListQuery>,
) -> Result<Json<JobList>, ApiError> {
    let (filter, limit) = query.decode()?;
    Ok(Json(
        service::list(&state, &origin, &caller, filter, limit).await?,
    ))
}

/// Returns a job.
///
/// With `wait`, the response is sent when the job has ended or the wait time has elapsed. Each
/// response has newly signed URLs.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}", tag = "Jobs", operation_id = "get_job",
    params(("job_id" = String, Path, description = "Id of the job"), WaitQuery),
    responses((status = 200, body = JobRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_job(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Response, ApiError> {
    let record = service::get(&state, &origin, &caller, &id, query.decode()?).await?;
    Ok(polled(record))
}

/// Streams the events of a job until it has ended.
///
/// With `Last-Event-ID`, the stream starts after that event.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/events", tag = "Jobs", operation_id = "follow_job",
    params(
        ("job_id" = String, Path, description = "Id of the job"),
        ("last-event-id" = Option<u64>, Header, description = "Sequence number of the last received event")
    ),
    responses(
        (status = 200, description = "The events of the job", content_type = "text/event-stream", body = String),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn follow_job(
    ControlCaller(caller): ControlCaller,
    State(state): State<MediaState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = last_event(&headers)?;
    Ok(sse::response(service::events(&state, &caller, &id, after).await?))
}

fn last_event(headers: &HeaderMap) -> Result<u64, Error> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(0);
    };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| {
        let message = "'last-event-id' must be the sequence number of the last received event.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("last-event-id")
    })
}

/// Cancels a job.
///
/// A job that has not started ends immediately and costs nothing. A running job receives a
/// cancellation request; outputs that the provider has already generated are stored and charged. A
/// job that has ended does not change.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/cancel", tag = "Jobs", operation_id = "cancel_job",
    params(("job_id" = String, Path, description = "Id of the job")),
    responses((status = 200, body = JobRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_job(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let clock = state.storage.clock.clone();
    let record = service::cancel(&state, &origin, &caller, &id, &*clock).await?;
    Ok(polled(record))
}

/// Returns status 200 with the job reference and the headers `location` and `retry-after` (choices,
/// J1).
pub(crate) fn accepted(reference: &JobReference) -> Response {
    let mut response = Json(reference).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::try_from(&reference.poll_url) {
        headers.insert(LOCATION, location);
    }
    headers.insert(RETRY_AFTER, FIRST_POLL_SECONDS);
    response
}

/// Adds the header `preference-applied` with the maximum wait (RFC 7240, section 3).
pub(crate) fn preference_applied(response: &mut Response, wait: Duration) {
    if let Ok(applied) = HeaderValue::try_from(format!("wait={}", wait.as_secs())) {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
}

/// Returns the response with a job record. Adds the header `retry-after` if the job has not ended.
fn polled(record: JobRecord) -> Response {
    let continues = record.completed_at.is_none();
    let mut response = Json(record).into_response();
    if continues {
        response.headers_mut().insert(RETRY_AFTER, FIRST_POLL_SECONDS);
    }
    response
}

/// Parses the header `prefer: wait=SECONDS` (RFC 7240). The wait is limited to `max`, and `wait`
/// without a value means `max`. Malformed values are ignored. Returns `None` if no valid `wait`
/// exists.
pub(crate) fn prefer_wait(headers: &HeaderMap, max: Duration) -> Option<Duration> {
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
