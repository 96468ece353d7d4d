//! HTTP handlers of the Chat Completions API.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, Origin, WorkCaller, json, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Answer};
use super::wire::{ChatCompletion, ChatCompletionChunk, CreateChatCompletion};
use crate::Inference;
use crate::research::chat::{ChatReport, Content};

const JOB_ID: HeaderName = HeaderName::from_static("x-job-id");

/// Returns the router of `/v1/chat/completions`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_chat_completion))
}

/// Creates a chat completion: the next message of a conversation.
///
/// With `stream: true` the response is a stream of server-sent events. A research model writes a
/// report with the parameters of `POST /v1/research`; the header `x-job-id` has the id of its job.
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
    Origin(origin): Origin,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    match service::create(&inference, &ctx, caller, origin, body).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(events)),
        Answer::Research(report) => Ok(researched(report)),
    }
}

/// Returns the response with a report, and the id of its job in `x-job-id`.
fn researched(report: ChatReport) -> Response {
    let mut response = match report.content {
        Ok(Content::Whole(bytes)) => json::response(bytes),
        Ok(Content::Stream(events)) => sse::response(events),
        Err(error) => ApiError(error).into_response(),
    };
    if let Ok(job) = HeaderValue::try_from(report.job) {
        response.headers_mut().insert(JOB_ID, job);
    }
    response
}
