//! Handlers.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, JsonBody, WorkCaller, json, sse};
use tollgate_formats::anthropic_messages::{Betas, Version};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::count;
use super::service::{self, Answer};
use super::wire::{
    CountMessageTokens, CreateMessage, Message, MessageErrorBody, MessageStreamEvent, MessageTokens,
};
use crate::Inference;

const COUNTING: HeaderName = HeaderName::from_static("x-tollgate-counting");

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_message))
        .routes(routes!(count_message_tokens))
}

/// Generates the next message of a conversation in the format of messages, at once or, with `stream: true`, piece by
/// piece.
#[utoipa::path(
    post, path = "/v1/messages", tag = "Text", operation_id = "create_message",
    request_body = CreateMessage,
    responses(
        (status = 200, description = "The answer, or with `stream: true` its events", content(
            (Message = "application/json"), (MessageStreamEvent = "text/event-stream")
        )),
        (status = "default", body = MessageErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_message(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let version = version(&headers)?;
    let betas = betas(&headers)?;
    match service::create(&inference.pipeline, &ctx, caller, version, betas, body).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(*events)),
    }
}

/// Counts the tokens of a request that is not carried out: the model's provider is asked, where it counts. It costs nothing
/// and counts against no limit but that of reads.
#[utoipa::path(
    post, path = "/v1/messages/count_tokens", tag = "Text", operation_id = "count_message_tokens",
    request_body = CountMessageTokens,
    responses(
        (status = 200, description = "The tokens", body = MessageTokens),
        (status = "default", body = MessageErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn count_message_tokens(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let version = version(&headers)?;
    let betas = betas(&headers)?;
    let counted = count::count(&inference.pipeline, &ctx, caller, version, betas, body).await?;
    let mut response = json::response(Bytes::from(serde_json::to_vec(&counted).unwrap_or_default()));
    let how = HeaderValue::from_static(counted.counting);
    response.headers_mut().insert(COUNTING, how);
    Ok(response)
}

/// The version of the format that a request is in.
pub(crate) fn version(headers: &HeaderMap) -> Result<Version, ApiError> {
    let header = headers.get("anthropic-version");
    let text = header.map(|value| value.to_str().unwrap_or("unreadable"));
    Version::parse(text).map_err(|error| ApiError(error.into()))
}

/// The previews that a request asks for.
pub(crate) fn betas(headers: &HeaderMap) -> Result<Betas, ApiError> {
    let values = headers.get_all("anthropic-beta").iter();
    Betas::parse(values.map(HeaderValue::as_bytes)).map_err(|error| ApiError(error.into()))
}
