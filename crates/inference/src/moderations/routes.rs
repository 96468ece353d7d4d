//! HTTP handlers of the Moderations API.

use axum::Json;
use axum::extract::State;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{CreateModeration, ModerationResults};
use crate::Inference;

/// Returns the router of `/v1/moderations`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_moderation))
}

/// Classifies whether texts and images are potentially harmful.
///
/// Moderation is free of charge.
#[utoipa::path(
    post, path = "/v1/moderations", tag = "Text", operation_id = "create_moderation",
    request_body = CreateModeration,
    responses((status = 200, body = ModerationResults), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_moderation(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Json<ModerationResults>, ApiError> {
    Ok(Json(
        service::create(&inference.pipeline, &ctx, caller, &body).await?,
    ))
}
