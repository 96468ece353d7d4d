//! Handlers.

use axum::extract::State;
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::GenerateVideo;
use crate::MediaRoom;
use crate::jobs::{JobReference, accepted};
use crate::submission::Asked;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new().routes(routes!(generate_video))
}

/// Makes a film. The answer is a job, which is polled: films take one to fifteen minutes, large ones longer.
#[utoipa::path(
    post, path = "/v1/videos/generations", tag = "Videos", operation_id = "generate_video",
    request_body = GenerateVideo,
    responses((status = 200, body = JobReference), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn generate_video(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    Ok(accepted(&service::create(asked).await?))
}
