//! Handlers.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, WorkCaller, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::count;
use super::service::{self, Answer};
use super::wire::{
    CountResponseInputTokens, CreateResponse, ResponseInputTokens, ResponseObject, ResponseStreamEvent,
};
use crate::Inference;

const COUNTING: HeaderName = HeaderName::from_static("x-tollgate-counting");

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_response))
        .routes(routes!(count_response_input_tokens))
}

/// Generates a response to an input in the format of responses, at once or, with `stream: true`, piece by piece.
#[utoipa::path(
    post, path = "/v1/responses", tag = "Text", operation_id = "create_response",
    request_body = CreateResponse,
    responses(
        (status = 200, description = "The response, or with `stream: true` its events", content(
            (ResponseObject = "application/json"), (ResponseStreamEvent = "text/event-stream")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_response(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    match service::create(&inference.pipeline, &ctx, caller, body).await? {
        Answer::Whole(bytes) => Ok(json(bytes)),
        Answer::Stream(events) => Ok(sse::response(*events)),
    }
}

/// Counts the tokens of a request without sending it anywhere. It costs nothing and counts against no limit but that of
/// reads.
#[utoipa::path(
    post, path = "/v1/responses/input_tokens", tag = "Text", operation_id = "count_response_input_tokens",
    request_body = CountResponseInputTokens,
    responses(
        (status = 200, description = "The tokens", body = ResponseInputTokens),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn count_response_input_tokens(
    _: ControlCaller,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let counted = count::count(&inference.pipeline, &body)?;
    let mut response = json(Bytes::from(serde_json::to_vec(&counted).unwrap_or_default()));
    let how = HeaderValue::from_static(counted.counting);
    response.headers_mut().insert(COUNTING, how);
    Ok(response)
}

fn json(bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
