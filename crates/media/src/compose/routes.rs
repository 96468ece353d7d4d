//! HTTP handlers of the composition endpoints.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::job_reference::accepted;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JobReference, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{ComposeVideo, RecipeList};
use crate::MediaState;
use crate::jobs::POLL_SECONDS;
use crate::submission::Submission;

/// Returns the router of the composition endpoints.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(list_recipes))
        .routes(routes!(compose_video))
}

/// Lists the recipes for compositions, with their default settings.
#[utoipa::path(
    get, path = "/v1/videos/compose/recipes", tag = "Videos", operation_id = "list_compose_recipes",
    responses((status = 200, body = RecipeList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_recipes(_: ControlCaller, State(state): State<MediaState>) -> Json<RecipeList> {
    Json(service::recipes(&state))
}

/// Composes a short video from a script, a voice, scenes, captions and music.
///
/// With `mode: plan`, the result is a storyboard with the maximum cost of each step. You can change
/// the storyboard and send it in a later request. With `mode: render`, the result is the video. The
/// response is a job to poll.
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
    State(state): State<MediaState>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let submission = Submission {
        state: &state,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    let reference = service::compose(submission).await?;
    Ok(accepted(&reference, StatusCode::OK, POLL_SECONDS))
}
