//! HTTP handler of video generations.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::job_reference::accepted;
use tollgate_edge::{ApiError, ErrorBody, JobReference, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::GenerateVideo;
use crate::MediaState;
use crate::jobs::POLL_SECONDS;
use crate::submission::Submission;

/// Returns the router of video generations.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new().routes(routes!(generate_video))
}

/// Generates a video.
///
/// The response is a job to poll. Most videos take one to fifteen minutes; large ones take longer.
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
    let reference = service::create(submission).await?;
    Ok(accepted(&reference, StatusCode::OK, POLL_SECONDS))
}
