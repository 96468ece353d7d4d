//! HTTP handlers of the Embeddings API.

use axum::extract::State;
use axum::response::Response;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, WorkCaller, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{CreateEmbeddings, EmbeddingList};
use crate::Inference;

/// Returns the router of `/v1/embeddings`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_embeddings))
}

/// Creates embeddings of one or more inputs.
///
/// An embedding is a vector; texts with similar meanings have vectors that are close to each other.
/// Only input tokens are charged.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "Text", operation_id = "create_embeddings",
    request_body = CreateEmbeddings,
    responses((status = 200, body = EmbeddingList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_embeddings(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let bytes = service::create(&inference.pipeline, &ctx, caller, body).await?;
    Ok(json::response(bytes))
}
