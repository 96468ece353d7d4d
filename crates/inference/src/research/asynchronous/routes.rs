//! HTTP handlers of the asynchronous chat completions.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Origin, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{AsyncChatCompletion, AsyncChatCompletions, CreateAsyncChatCompletion, PageQuery};
use crate::Inference;

/// Returns the router of `/v1/async/chat/completions`.
pub(in super::super) fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_async_chat_completion, list_async_chat_completions))
        .routes(routes!(get_async_chat_completion))
}

/// Creates an asynchronous chat completion with a research model.
///
/// The completion is a research job in Perplexity's format. Its id is the id of the job.
#[utoipa::path(
    post, path = "/v1/async/chat/completions", tag = "Research",
    operation_id = "create_async_chat_completion",
    request_body = CreateAsyncChatCompletion,
    responses(
        (status = 200, description = "The accepted chat completion", body = AsyncChatCompletion),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_async_chat_completion(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<AsyncChatCompletion>, ApiError> {
    let created = service::create(&inference.research, &ctx, caller, origin, &body).await?;
    Ok(Json(created))
}

/// Lists the asynchronous chat completions of the account, newest first.
///
/// The list contains all research jobs.
#[utoipa::path(
    get, path = "/v1/async/chat/completions", tag = "Research",
    operation_id = "list_async_chat_completions", params(PageQuery),
    responses(
        (status = 200, description = "A page of chat completions", body = AsyncChatCompletions),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_async_chat_completions(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Query(query): Query<PageQuery>,
) -> Result<Json<AsyncChatCompletions>, ApiError> {
    let listed = service::list(&inference.research, caller.account_id(), &query).await?;
    Ok(Json(listed))
}

/// Returns an asynchronous chat completion.
#[utoipa::path(
    get, path = "/v1/async/chat/completions/{id}", tag = "Research",
    operation_id = "get_async_chat_completion",
    params(("id" = String, Path, description = "Id of the chat completion")),
    responses(
        (status = 200, description = "The chat completion", body = AsyncChatCompletion),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_async_chat_completion(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<AsyncChatCompletion>, ApiError> {
    let found = service::get(&inference.research, caller.account_id(), &id).await?;
    Ok(Json(found))
}
