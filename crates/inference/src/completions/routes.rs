//! HTTP handlers of the Completions API.

use axum::extract::State;
use axum::response::Response;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, WorkCaller, json, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Answer};
use super::wire::{Completion, CompletionChunk, CreateCompletion};
use crate::Inference;

/// Returns the router of `/v1/completions`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_completion))
}

/// Creates a completion of a prompt.
///
/// This legacy format, the predecessor of chat completions, takes a prompt instead of messages.
/// With `stream: true` the response is a stream of server-sent events.
#[utoipa::path(
    post, path = "/v1/completions", tag = "Text", operation_id = "create_completion",
    request_body = CreateCompletion,
    responses(
        (status = 200, description = "The completion, or its chunks with `stream: true`", content(
            (Completion = "application/json"), (CompletionChunk = "text/event-stream")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_completion(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    match service::create(&inference.pipeline, &ctx, caller, body).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(events)),
    }
}
