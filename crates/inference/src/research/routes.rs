//! HTTP handlers of the research endpoints.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::job_reference::{accepted, prefer_wait, preference_applied};
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JobReference, JsonBody, Origin, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asynchronous;
use super::service::{self, ResearchRequest, SYNC_TIMEOUT, Submission};
use super::wire::{CreateResearch, ReportOrJob, SpanQuery};
use crate::Inference;

/// Delay before the first poll of a job, in seconds.
const POLL_SECONDS: u16 = 5;

/// Returns the router of the research endpoints.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_research))
        .route("/v1/deep-research", post(create_research))
        .routes(routes!(get_source_text))
        .merge(asynchronous::routes())
}

/// Writes a research report with verified citations.
///
/// The model plans searches, reads the documents that it finds, and writes a report of several
/// sections. Each citation quotes a stored source text verbatim, at the given offsets. The response
/// is a job to poll; its events show each step. With `sync: true` or the header
/// `prefer: wait=SECONDS`, the response is the report, if it is complete within four minutes. The
/// endpoint is also available as `POST /v1/deep-research`.
#[utoipa::path(
    post, path = "/v1/research", tag = "Research", operation_id = "create_research",
    request_body = CreateResearch,
    responses(
        (status = 200, description = "The report of a synchronous request", body = ReportOrJob),
        (status = 202, description = "The accepted job", body = JobReference),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_research(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let account = caller.account_id();
    let research = &inference.research;
    let submission = Submission::read(ResearchRequest {
        research,
        ctx: &ctx,
        caller,
        origin,
        body,
    })?;
    let is_sync = submission.request.is_sync;
    let reference = service::create(submission).await?;
    let prefer = prefer_wait(&headers, SYNC_TIMEOUT);
    let mut response = match prefer.or(is_sync.then_some(SYNC_TIMEOUT)) {
        None => accepted(&reference, StatusCode::ACCEPTED, POLL_SECONDS),
        Some(wait) => match service::wait(research, account, &reference.job_id, wait).await? {
            Some(report) => Json(report).into_response(),
            None => accepted(&reference, StatusCode::ACCEPTED, POLL_SECONDS),
        },
    };
    if let Some(wait) = prefer {
        preference_applied(&mut response, wait);
    }
    Ok(response)
}

/// Returns the stored text of a source.
///
/// The quote of a citation is the text from its `start` to its `end`, in characters (Unicode code
/// points). Texts are stored for 30 days after the request.
#[utoipa::path(
    get, path = "/v1/research/{job_id}/sources/{source_id}", tag = "Research", operation_id = "get_source_text",
    params(
        ("job_id" = String, Path, description = "Id of the research job"),
        ("source_id" = String, Path, description = "Id of the source, such as `s1`"),
        SpanQuery
    ),
    responses(
        (status = 200, description = "The text", content_type = "text/plain; charset=utf-8", body = String),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_source_text(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path((job, source)): Path<(String, String)>,
    Query(query): Query<SpanQuery>,
) -> Result<Response, ApiError> {
    let span = (query.start, query.end);
    let text = service::source_text(&inference.research, caller.account_id(), (&job, &source), span).await?;
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, text).into_response())
}
