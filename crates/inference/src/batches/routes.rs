//! HTTP handlers of the Batch API.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::read::invalid;
use super::service;
use super::wire::{Batch, BatchList, BatchesQuery, CreateBatch};
use crate::Inference;

/// Returns the router of `/v1/batches`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_batch, list_batches))
        .routes(routes!(get_batch))
        .routes(routes!(cancel_batch))
}

/// Creates a batch from a file of requests.
///
/// The requests are executed within 24 hours at 35 % below the list price; those that have not
/// started by then expire. The maximum cost of all requests is held when the batch is created. Each
/// request is charged its actual cost.
#[utoipa::path(
    post, path = "/v1/batches", tag = "Files", operation_id = "create_batch",
    request_body = CreateBatch,
    responses((status = 200, body = Batch), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_batch(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<Batch>, ApiError> {
    Ok(Json(
        service::create(&inference.batches, &ctx, caller, body).await?,
    ))
}

/// Lists the batches of the account, newest first.
#[utoipa::path(
    get, path = "/v1/batches", tag = "Files", operation_id = "list_batches",
    params(BatchesQuery),
    responses((status = 200, body = BatchList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_batches(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Query(query): Query<BatchesQuery>,
) -> Result<Json<BatchList>, ApiError> {
    let limit = query.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(ApiError(invalid("limit", "must be an integer from 1 to 100")));
    }
    let after = query.after.map(|after| after.parse());
    let after = after
        .transpose()
        .map_err(|_| invalid("after", "is not the id of a batch"))?;
    let (batches, has_more) = service::list(&inference.batches, caller.account_id(), after, limit).await?;
    Ok(Json(BatchList::of(batches, has_more)))
}

/// Returns a batch and its progress.
#[utoipa::path(
    get, path = "/v1/batches/{batch_id}", tag = "Files", operation_id = "get_batch",
    params(("batch_id" = String, Path, description = "Id of the batch")),
    responses((status = 200, body = Batch), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_batch(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<Batch>, ApiError> {
    Ok(Json(
        service::get(&inference.batches, caller.account_id(), &id).await?,
    ))
}

/// Cancels a batch.
///
/// Requests that are already running finish and are charged. The others are not started and cost
/// nothing.
#[utoipa::path(
    post, path = "/v1/batches/{batch_id}/cancel", tag = "Files", operation_id = "cancel_batch",
    params(("batch_id" = String, Path, description = "Id of the batch")),
    responses((status = 200, body = Batch), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn cancel_batch(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<Batch>, ApiError> {
    Ok(Json(
        service::cancel(&inference.batches, caller.account_id(), &id).await?,
    ))
}
