//! HTTP handlers of the job endpoints.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Origin, Query, sse};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{JobList, JobRecord, ListQuery, WaitQuery};
use crate::MediaState;

/// Delay before the next poll of a media job, in seconds.
pub(crate) const POLL_SECONDS: u16 = 2;

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

/// Returns the response with a job record. Adds the header `retry-after` if the job has not ended.
fn polled(record: JobRecord) -> Response {
    let continues = record.completed_at.is_none();
    let mut response = Json(record).into_response();
    if continues {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(POLL_SECONDS));
    }
    response
}
