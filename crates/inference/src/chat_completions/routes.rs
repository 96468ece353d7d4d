//! HTTP handlers of the Chat Completions API.

use axum::extract::State;
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, WorkCaller, json, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Answer};
use super::wire::{ChatCompletion, ChatCompletionChunk, CreateChatCompletion};
use crate::Inference;

/// Returns the router of `/v1/chat/completions`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_chat_completion))
}

/// Creates a chat completion: the next message of a conversation.
///
/// With `stream: true` the response is a stream of server-sent events.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "Text", operation_id = "create_chat_completion",
    request_body = CreateChatCompletion,
    responses(
        (status = 200, description = "The chat completion, or its chunks with `stream: true`", content(
            (ChatCompletion = "application/json"), (ChatCompletionChunk = "text/event-stream")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_chat_completion(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    match service::create(&inference.pipeline, &ctx, caller, body).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(events)),
    }
}
