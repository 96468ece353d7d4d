//! HTTP handlers of the Messages API.

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

/// Returns the router of `/v1/messages`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_message))
        .routes(routes!(count_message_tokens))
}

/// Creates a message: the next turn of a conversation in Anthropic's format.
///
/// With `stream: true` the response is a stream of server-sent events.
#[utoipa::path(
    post, path = "/v1/messages", tag = "Text", operation_id = "create_message",
    request_body = CreateMessage,
    responses(
        (status = 200, description = "The message, or its events with `stream: true`", content(
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

/// Counts the input tokens of a message request without executing it.
///
/// The gateway queries the model's provider if the provider has a counting endpoint. Counting is
/// free of charge and only subject to the rate limit of read requests.
#[utoipa::path(
    post, path = "/v1/messages/count_tokens", tag = "Text", operation_id = "count_message_tokens",
    request_body = CountMessageTokens,
    responses(
        (status = 200, description = "The number of input tokens", body = MessageTokens),
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

/// Parses the `anthropic-version` header.
pub(crate) fn version(headers: &HeaderMap) -> Result<Version, ApiError> {
    let header = headers.get("anthropic-version");
    let text = header.map(|value| value.to_str().unwrap_or("unreadable"));
    Version::parse(text).map_err(|error| ApiError(error.into()))
}

/// Parses the `anthropic-beta` headers.
pub(crate) fn betas(headers: &HeaderMap) -> Result<Betas, ApiError> {
    let values = headers.get_all("anthropic-beta").iter();
    Betas::parse(values.map(HeaderValue::as_bytes)).map_err(|error| ApiError(error.into()))
}
