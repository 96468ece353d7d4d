//! Handlers, and how other groups answer that they have accepted a job.

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
use crate::MediaRoom;

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// When to poll first.
const SOON: HeaderValue = HeaderValue::from_static("2");

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs))
        .routes(routes!(get_job))
        .routes(routes!(follow_job))
        .routes(routes!(cancel_job))
}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "Jobs", operation_id = "list_jobs", params(ListQuery),
    responses((status = 200, body = JobList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_jobs(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    Query(query): Query<ListQuery>,
) -> Result<Json<JobList>, ApiError> {
    let (filter, limit) = query.decode()?;
    Ok(Json(service::list(&room, &origin, &caller, filter, limit).await?))
}

/// Polls a job. With `wait` it answers when the job has ended, or when the time is over. Each poll makes new addresses.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}", tag = "Jobs", operation_id = "get_job",
    params(("job_id" = String, Path, description = "The `job_id` of the acceptance"), WaitQuery),
    responses((status = 200, body = JobRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_job(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<JobRecord>, ApiError> {
    Ok(Json(
        service::get(&room, &origin, &caller, &id, query.decode()?).await?,
    ))
}

/// Follows a job: an event for everything that happens to it, until it has ended. With `Last-Event-ID` it goes on behind
/// that event.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/events", tag = "Jobs", operation_id = "follow_job",
    params(
        ("job_id" = String, Path, description = "The `job_id` of the acceptance"),
        ("last-event-id" = Option<u64>, Header, description = "The number of the last event that was received")
    ),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn follow_job(
    ControlCaller(caller): ControlCaller,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = last_event(&headers)?;
    Ok(sse::response(service::events(&room, &caller, &id, after).await?))
}

fn last_event(headers: &HeaderMap) -> Result<u64, Error> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(0);
    };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| {
        let message = "'last-event-id' is the number of the last event that was received.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("last-event-id")
    })
}

/// Cancels a job. One that nobody has begun ends at once and costs nothing; else whoever carries it out is told, and what
/// its provider has made by then is kept and charged. One that has ended stays as it is.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/cancel", tag = "Jobs", operation_id = "cancel_job",
    params(("job_id" = String, Path, description = "The `job_id` of the acceptance")),
    responses((status = 200, body = JobRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_job(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
) -> Result<Json<JobRecord>, ApiError> {
    let clock = room.shelf.clock.clone();
    Ok(Json(
        service::cancel(&room, &origin, &caller, &id, &*clock).await?,
    ))
}

/// A 200 with the reference, `location` and `retry-after` (choices, J1).
pub(crate) fn accepted(reference: &JobReference) -> Response {
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
