//! HTTP handlers of the Responses API.

use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::websocket::Handshake;
use tollgate_edge::{
    ApiError, ControlCaller, ErrorBody, JsonBody, Origin, Query, WorkCaller, json, request_layer, sse,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::listing::{self, ItemsQuery, ResponseItems};
use super::service::{self, Answer, Request};
use super::store::ReadQuery;
use super::wire::{
    CompactResponse, CompactedResponse, CountResponseInputTokens, CreateResponse, DeletedResponse,
    ResponseInputTokens, ResponseObject, ResponseStreamEvent,
};
use super::{compact, count, socket, store, subscription};
use crate::{Inference, research};

const COUNTING: HeaderName = HeaderName::from_static("x-tollgate-counting");

/// Returns the router of `/v1/responses`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_response, open_response_session))
        .routes(routes!(count_response_input_tokens))
        .routes(routes!(compact_response))
        .routes(routes!(get_response, delete_response))
        .routes(routes!(cancel_response))
        .routes(routes!(list_response_input_items))
}

/// Creates a response in OpenAI's Responses format.
///
/// With `stream: true` the response is a stream of server-sent events. A research model writes a
/// report: its searches are items of type `web_search_call`, and the text has `url_citation`
/// annotations.
#[utoipa::path(
    post, path = "/v1/responses", tag = "Text", operation_id = "create_response",
    request_body = CreateResponse,
    responses(
        (status = 200, description = "The response, or its events with `stream: true`", content(
            (ResponseObject = "application/json"), (ResponseStreamEvent = "text/event-stream")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_response(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let request = Request {
        inference: &inference,
        ctx: &ctx,
        caller,
        origin: Some(origin),
        body,
        latest: None,
    };
    match service::create(request).await? {
        Answer::Whole(bytes) => Ok(json::response(bytes)),
        Answer::Stream(events) => Ok(sse::response(*events)),
        Answer::Subscribed(events) => Ok(sse::response(events)),
    }
}

/// Counts the input tokens of a request without executing it.
///
/// The gateway queries the model's provider if the provider has a counting endpoint. Counting is
/// free of charge and only subject to the rate limit of read requests.
#[utoipa::path(
    post, path = "/v1/responses/input_tokens", tag = "Text", operation_id = "count_response_input_tokens",
    request_body = CountResponseInputTokens,
    responses(
        (status = 200, description = "The number of input tokens", body = ResponseInputTokens),
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

/// Opens a WebSocket session.
///
/// Each message `{"type": "response.create", …}` has the fields of a request, and the events of its
/// response are sent back. A session executes one response at a time. Each response is charged and
/// counts against the rate limits like a request. `previous_response_id` may name the latest
/// response of the session even if it is not stored. A session ends after one hour, or after five
/// minutes without a message.
#[utoipa::path(
    get, path = "/v1/responses", tag = "Text", operation_id = "open_response_session",
    responses(
        (status = 101, description = "The WebSocket session is open"),
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
        let mut response = request_layer::method_not_allowed().await.into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Ok(response);
    };
    let sessions = inference.sessions.clone();
    let opened = sessions.open(
        &caller,
        &ctx,
        Handshake {
            path: "/v1/responses",
            headers: &headers,
            upgrade,
            secret: None,
            label: None,
        },
        move |session| socket::run_session(session, inference),
    );
    Ok(opened?)
}

/// Compacts a long conversation.
///
/// The messages of the user remain unchanged. All other items are replaced by one item of type
/// `compaction`, which only requests of this account can decrypt. The output is the input for the
/// next request. A compaction costs as much as a response whose input is the whole conversation.
#[utoipa::path(
    post, path = "/v1/responses/compact", tag = "Text", operation_id = "compact_response",
    request_body = CompactResponse,
    responses(
        (status = 200, description = "The items of the compacted conversation", body = CompactedResponse),
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

/// Returns a stored response.
///
/// Responses are stored for 30 days, unless the request set `store: false`. A background response
/// is `queued`, then `in_progress`, until it is `completed`, `incomplete`, `failed` or `cancelled`.
/// If it was created with `background` and `stream`, its events can be replayed and followed with
/// the same sequence numbers.
#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "Text", operation_id = "get_response",
    params(
        ("id" = String, Path, description = "Id of the response"),
        ("stream" = Option<bool>, Query, description = "Stream the events of a background response. Default: `false`"),
        ("starting_after" = Option<u64>, Query, description = "Return only events after this `sequence_number`; only with `stream=true`")
    ),
    responses(
        (status = 200, description = "The response, or its events with `stream=true`", content(
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
    let (account, research) = (caller.account_id(), &inference.research);
    if let Some(job) = research::responses::find(research, account, &id).await? {
        return Ok(match query.stream {
            true => sse::response(research::responses::subscribe(
                research,
                job,
                query.starting_after,
            )?),
            false => whole(&research::responses::shown(research, job).await?),
        });
    }
    if query.stream {
        let events = subscription::subscribe(&inference, account, &id, query.starting_after).await?;
        return Ok(sse::response(events));
    }
    let response = match inference.background.unfinished(account, &id).await? {
        Some(unfinished) => unfinished,
        None => inference.responses.get(account, &id).await?.response,
    };
    Ok(whole(&response))
}

fn whole(response: &Value) -> Response {
    json::response(Bytes::from(response.to_string()))
}

/// Deletes a response.
///
/// Responses that continue from the deleted one remain, but requests can no longer continue from
/// them. The response of a research model is deleted with its job.
#[utoipa::path(
    delete, path = "/v1/responses/{id}", tag = "Text", operation_id = "delete_response",
    params(("id" = String, Path, description = "Id of the response")),
    responses(
        (status = 200, description = "The response was deleted", body = DeletedResponse),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_response(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<DeletedResponse>, ApiError> {
    let (account, research) = (caller.account_id(), &inference.research);
    if let Some(job) = research::responses::find(research, account, &id).await? {
        research::responses::delete(research, &job).await?;
        return Ok(Json(DeletedResponse::new(id)));
    }
    if inference.background.unfinished(account, &id).await?.is_some() {
        return Err(ApiError(store::not_finished()));
    }
    inference.responses.delete(account, &id).await?;
    Ok(Json(DeletedResponse::new(id)))
}

/// Cancels a background response.
///
/// A response that has not started costs nothing; otherwise the tokens that the provider used are
/// charged. Repeated calls return the same result. A completed response cannot be cancelled.
#[utoipa::path(
    post, path = "/v1/responses/{id}/cancel", tag = "Text", operation_id = "cancel_response",
    params(("id" = String, Path, description = "Id of the response")),
    responses(
        (status = 200, description = "The response with its current status", body = ResponseObject),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_response(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (account, research) = (caller.account_id(), &inference.research);
    if let Some(job) = research::responses::find(research, account, &id).await? {
        return Ok(whole(&research::responses::cancel(research, job).await?));
    }
    if let Some(cancelled) = inference.background.cancel(account, &id).await? {
        return Ok(whole(&cancelled));
    }
    let turn = inference.responses.get(account, &id).await?;
    Err(ApiError(store::already_ended(&turn)))
}

/// Lists the input items of a stored response.
///
/// The list contains the input items of the response and, as older items, the input and output
/// items of the responses that it continues.
#[utoipa::path(
    get, path = "/v1/responses/{id}/input_items", tag = "Text", operation_id = "list_response_input_items",
    params(("id" = String, Path, description = "Id of the response"), ItemsQuery),
    responses(
        (status = 200, description = "A page of input items", body = ResponseItems),
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
    let (account, research) = (caller.account_id(), &inference.research);
    if let Some(job) = research::responses::find(research, account, &id).await? {
        let input = research::responses::input(research, &job)?;
        return Ok(Json(listing::page(input, &id, query)?));
    }
    let items = listing::list(&inference.responses, account, &id, query).await?;
    Ok(Json(items))
}
