//! Handlers.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{ComposeVideo, RecipeList};
use crate::MediaRoom;
use crate::jobs::{JobReference, accepted};
use crate::submission::Asked;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new()
        .routes(routes!(list_recipes))
        .routes(routes!(compose_video))
}

/// What kinds of films can be composed here, and with what where a request does not say it.
#[utoipa::path(
    get, path = "/v1/videos/compose/recipes", tag = "Videos", operation_id = "list_compose_recipes",
    responses((status = 200, body = RecipeList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_recipes(_: ControlCaller, State(room): State<MediaRoom>) -> Json<RecipeList> {
    Json(service::recipes(&room))
}

/// Composes a short film: a script, a voice, scenes, captions and music. With `mode: plan` the job's result is a storyboard
/// with what each step costs, which can be changed and sent back; with `mode: render` it is the film. The answer is a job,
/// which is polled.
#[utoipa::path(
    post, path = "/v1/videos/compose", tag = "Videos", operation_id = "compose_video",
    request_body = ComposeVideo,
    responses((status = 200, body = JobReference), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn compose_video(
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
    Ok(accepted(&service::compose(asked).await?))
}
