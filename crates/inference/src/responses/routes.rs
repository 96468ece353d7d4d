//! Handlers.

use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Query, WorkCaller, json, shell, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::kept::ReadQuery;
use super::listing::{self, ItemsQuery, ResponseItems};
use super::service::{self, Answer, Request};
use super::wire::{
    CompactResponse, CompactedResponse, CountResponseInputTokens, CreateResponse, DeletedResponse,
    ResponseInputTokens, ResponseObject, ResponseStreamEvent,
};
use super::{compact, count, following, kept, socket};
use crate::Inference;

const COUNTING: HeaderName = HeaderName::from_static("x-tollgate-counting");

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_response, open_response_session))
        .routes(routes!(count_response_input_tokens))
        .routes(routes!(compact_response))
        .routes(routes!(get_response, delete_response))
        .routes(routes!(cancel_response))
        .routes(routes!(list_response_input_items))
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
    let request = Request {
        inference: &inference,
        ctx: &ctx,
        caller,
        body,
        latest: None,
    };
    match service::create(request).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(*events)),
        Answer::Followed(events) => Ok(sse::response(events)),
    }
}

/// Counts the tokens of a request that is not carried out: the model's provider is asked, where it counts. It costs nothing
/// and counts against no limit but that of reads.
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
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let counted = count::count(&inference, &ctx, caller, body).await?;
    let mut response = json::response(Bytes::from(serde_json::to_vec(&counted).unwrap_or_default()));
    let how = HeaderValue::from_static(counted.counting);
    response.headers_mut().insert(COUNTING, how);
    Ok(response)
}

/// Opens a session over a WebSocket. Each message `{"type": "response.create", …}` has the members of a request and is
/// answered by the events of its response, one response at a time; each counts and costs like a request. The latest
/// response of a session can be gone on from with `previous_response_id` although it is not kept. A session lasts an
/// hour, and five minutes without a message.
#[utoipa::path(
    get, path = "/v1/responses", tag = "Text", operation_id = "open_response_session",
    responses(
        (status = 101, description = "The session is open"),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn open_response_session(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let Ok(upgrade) = upgrade else {
        let mut response = shell::method_not_allowed().await.into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Ok(response);
    };
    let sessions = inference.sessions.clone();
    let opened = sessions.open(&caller, &ctx, &headers, upgrade, move |session| {
        socket::talk(session, inference)
    });
    Ok(opened?)
}

/// Makes a long conversation short. What users said stays as it is; for the rest there is one item of type
/// `compaction`, which only requests of this account can open. The output is the input with which the conversation goes
/// on. It costs what a response costs that reads the conversation.
#[utoipa::path(
    post, path = "/v1/responses/compact", tag = "Text", operation_id = "compact_response",
    request_body = CompactResponse,
    responses(
        (status = 200, description = "The items that stand for the conversation", body = CompactedResponse),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn compact_response(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let compacted = compact::compact(&inference, &ctx, caller, body).await?;
    Ok(json::response(Bytes::from(compacted.to_string())))
}

/// A response that is kept: for 30 days, unless its request said `store: false`. One that is made in the background is
/// `queued`, then `in_progress`, until it is there, has `failed` or was `cancelled`. When it was asked for with `background` and
/// `stream`, its events can be read again and on: they have the same numbers each time.
#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "Text", operation_id = "get_response",
    params(
        ("id" = String, Path, description = "Id of the response"),
        ("stream" = Option<bool>, Query, description = "Answers its events, as they happen"),
        ("starting_after" = Option<u64>, Query, description = "Those behind the event with this `sequence_number`")
    ),
    responses(
        (status = 200, description = "The response, or with `stream=true` its events", content(
            (ResponseObject = "application/json"), (ResponseStreamEvent = "text/event-stream")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_response(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let query = ReadQuery::read(&pairs)?;
    let account = caller.account_id();
    if query.stream {
        let events = following::follow(&inference, account, &id, query.starting_after).await?;
        return Ok(sse::response(events));
    }
    let response = match inference.background.unfinished(account, &id).await? {
        Some(unfinished) => unfinished,
        None => inference.kept.get(account, &id).await?.response,
    };
    Ok(json::response(Bytes::from(response.to_string())))
}

/// Forgets a response. Responses that go on from it stay, but cannot be gone on from any more.
#[utoipa::path(
    delete, path = "/v1/responses/{id}", tag = "Text", operation_id = "delete_response",
    params(("id" = String, Path, description = "Id of the response")),
    responses(
        (status = 200, description = "It is forgotten", body = DeletedResponse),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_response(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<DeletedResponse>, ApiError> {
    let account = caller.account_id();
    if inference.background.unfinished(account, &id).await?.is_some() {
        return Err(ApiError(kept::not_ended()));
    }
    inference.kept.delete(account, &id).await?;
    Ok(Json(DeletedResponse::new(id)))
}

/// Cancels a response that is made in the background. One that was not begun costs nothing; else what was used until then is
/// paid. Again, it answers the same; a response that is there cannot be cancelled.
#[utoipa::path(
    post, path = "/v1/responses/{id}/cancel", tag = "Text", operation_id = "cancel_response",
    params(("id" = String, Path, description = "Id of the response")),
    responses(
        (status = 200, description = "The response", body = ResponseObject),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_response(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let account = caller.account_id();
    if let Some(cancelled) = inference.background.cancel(account, &id).await? {
        return Ok(json::response(Bytes::from(cancelled.to_string())));
    }
    let turn = inference.kept.get(account, &id).await?;
    Err(ApiError(kept::has_ended(&turn)))
}

/// What a kept response was made from, page by page: the items of its request, and before them those of the responses
/// that it went on from.
#[utoipa::path(
    get, path = "/v1/responses/{id}/input_items", tag = "Text", operation_id = "list_response_input_items",
    params(("id" = String, Path, description = "Id of the response"), ItemsQuery),
    responses(
        (status = 200, description = "A page of items", body = ResponseItems),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_response_input_items(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<ResponseItems>, ApiError> {
    let query = ItemsQuery::read(pairs)?;
    let items = listing::list(&inference.kept, caller.account_id(), &id, query).await?;
    Ok(Json(items))
}
