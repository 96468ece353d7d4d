//! HTTP handlers of the Message Batches API.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, JsonBody, Origin, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{
    CreateMessageBatch, DeletedMessageBatch, MessageBatch, MessageBatchList, MessageBatchesQuery,
};
use crate::Inference;
use crate::batches::read::invalid;
use crate::batches::request::{Endpoint, Reading};
use crate::messages::{MessageErrorBody, betas, version};

/// Returns the router of `/v1/messages/batches`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_message_batch, list_message_batches))
        .routes(routes!(get_message_batch, delete_message_batch))
        .routes(routes!(cancel_message_batch))
        .routes(routes!(get_message_batch_results))
}

/// Creates a message batch from a list of requests.
///
/// The requests are executed within 24 hours at 35 % below the list price; those that have not
/// started by then expire. The maximum cost of all requests is held when the batch is created. Each
/// request is charged its actual cost.
#[utoipa::path(
    post, path = "/v1/messages/batches", tag = "Files", operation_id = "create_message_batch",
    request_body = CreateMessageBatch,
    responses((status = 200, body = MessageBatch), (status = "default", body = MessageErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_message_batch(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Json<MessageBatch>, ApiError> {
    let reading = Reading {
        endpoint: Endpoint::Messages,
        version: version(&headers)?,
        betas: betas(&headers)?,
    };
    let job = service::create(&inference.batches, &ctx, caller, reading, &body).await?;
    Ok(Json(service::show(&inference.batches, &job, &origin).await?))
}

/// Lists the message batches of the account, newest first.
#[utoipa::path(
    get, path = "/v1/messages/batches", tag = "Files", operation_id = "list_message_batches",
    params(MessageBatchesQuery),
    responses((status = 200, body = MessageBatchList), (status = "default", body = MessageErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_message_batches(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    Query(query): Query<MessageBatchesQuery>,
) -> Result<Json<MessageBatchList>, ApiError> {
    let limit = query.limit.unwrap_or(20);
    if !(1..=1_000).contains(&limit) {
        return Err(ApiError(invalid("limit", "must be an integer from 1 to 1000")));
    }
    let (account, edges) = (caller.account_id(), query.edges()?);
    let (batches, has_more) = service::list(&inference.batches, account, edges, limit, &origin).await?;
    Ok(Json(MessageBatchList::of(batches, has_more)))
}

/// Returns a message batch and its progress.
#[utoipa::path(
    get, path = "/v1/messages/batches/{message_batch_id}", tag = "Files", operation_id = "get_message_batch",
    params(("message_batch_id" = String, Path, description = "Id of the batch")),
    responses((status = 200, body = MessageBatch), (status = "default", body = MessageErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_message_batch(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<MessageBatch>, ApiError> {
    let batch = service::get(&inference.batches, caller.account_id(), &id, &origin).await?;
    Ok(Json(batch))
}

/// Deletes an ended message batch with its requests and results.
#[utoipa::path(
    delete, path = "/v1/messages/batches/{message_batch_id}", tag = "Files", operation_id = "delete_message_batch",
    params(("message_batch_id" = String, Path, description = "Id of the batch")),
    responses((status = 200, body = DeletedMessageBatch), (status = "default", body = MessageErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_message_batch(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<DeletedMessageBatch>, ApiError> {
    let deleted = service::delete(&inference.batches, caller.account_id(), &id).await?;
    Ok(Json(deleted))
}

/// Cancels a message batch.
///
/// Requests that are already running finish and are charged. The others are not started and cost
/// nothing.
#[utoipa::path(
    post, path = "/v1/messages/batches/{message_batch_id}/cancel", tag = "Files", operation_id = "cancel_message_batch",
    params(("message_batch_id" = String, Path, description = "Id of the batch")),
    responses((status = 200, body = MessageBatch), (status = "default", body = MessageErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_message_batch(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<MessageBatch>, ApiError> {
    let batch = service::cancel(&inference.batches, caller.account_id(), &id, &origin).await?;
    Ok(Json(batch))
}

/// Returns the results of an ended message batch.
///
/// Each line is the result of one request, `{"custom_id", "result"}`, in any order.
#[utoipa::path(
    get, path = "/v1/messages/batches/{message_batch_id}/results", tag = "Files", operation_id = "get_message_batch_results",
    params(("message_batch_id" = String, Path, description = "Id of the batch")),
    responses(
        (status = 200, description = "The results as JSON Lines", content_type = "application/x-jsonl", body = Vec<u8>),
        (status = "default", body = MessageErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_message_batch_results(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let content = service::results(&inference.batches, caller.account_id(), &id).await?;
    let mut response = Response::new(Body::from_stream(content));
    let lines = HeaderValue::from_static("application/x-jsonl");
    response.headers_mut().insert(CONTENT_TYPE, lines);
    Ok(response)
}
