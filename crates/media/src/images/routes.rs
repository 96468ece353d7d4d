//! Handlers.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Answer, WINDOW};
use super::wire::{GenerateImages, ImagesOrJob};
use crate::MediaRoom;
use crate::jobs::{accepted, prefer_wait};
use crate::submission::Asked;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new().routes(routes!(generate_images))
}

/// Generates, edits, inpaints or varies pictures. The answer is a job, which is polled; with `sync: true`, the header
/// `prefer: wait=SECONDS` or a key of which that is the setting, it is the pictures, unless they take longer than that or than four
/// minutes.
#[utoipa::path(
    post, path = "/v1/images/generations", tag = "Images", operation_id = "generate_images",
    request_body = GenerateImages,
    responses((status = 200, body = ImagesOrJob), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn generate_images(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    let prefer = prefer_wait(&headers, WINDOW);
    Ok(match service::create(asked, prefer).await? {
        Answer::Made(pictures) => Json(pictures).into_response(),
        Answer::Accepted(reference) => accepted(&reference),
    })
}
