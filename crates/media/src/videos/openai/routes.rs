//! HTTP handlers of the video endpoints that are compatible with OpenAI.

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use tollgate_accounts::Disposition;
use tollgate_edge::body::{JSON_BODY, MEDIA_BODY};
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, FormBody, JsonBody, Origin, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::assets::{self, Asset};
use super::read::Sent;
use super::service;
use super::wire::{ContentQuery, CreateVideo, DeletedVideo, RemixVideo, Video, VideoList, VideosQuery};
use crate::MediaState;
use crate::outputs::{self, Opened};
use crate::submission::Submission;

/// Returns the router of the video endpoints that are compatible with OpenAI.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(create_video, list_videos))
        .routes(routes!(get_video, delete_video))
        .routes(routes!(get_video_content))
        .routes(routes!(remix_video))
}

/// Reads a JSON body or a form. Both have the same limits of size and transfer rate.
impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE);
        if !content_type.is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data")) {
            let JsonBody(body) = JsonBody::<MEDIA_BODY>::from_request(request, state).await?;
            return Ok(Self::Json(body));
        }
        let FormBody(fields) = FormBody::<MEDIA_BODY>::from_request(request, state).await?;
        Ok(Self::Form(fields))
    }
}

/// Creates a video (compatible with OpenAI's API).
///
/// The body is JSON, or a form with a file as `input_reference`. The request creates the same job
/// as `POST /v1/videos/generations`. The job is also available at `GET /v1/jobs/{job_id}`.
#[utoipa::path(
    post, path = "/v1/videos", tag = "Videos", operation_id = "create_video", request_body = CreateVideo,
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_video(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    sent: Sent,
) -> Result<Json<Video>, ApiError> {
    let submission = Submission {
        state: &state,
        ctx: &ctx,
        caller,
        origin,
        body: bytes::Bytes::new(),
    };
    Ok(Json(service::create(submission, &sent).await?))
}

/// Lists the videos of the account, newest first unless `order` is `asc`.
#[utoipa::path(
    get, path = "/v1/videos", tag = "Videos", operation_id = "list_videos", params(VideosQuery),
    responses((status = 200, body = VideoList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_videos(
    ControlCaller(caller): ControlCaller,
    State(state): State<MediaState>,
    Query(query): Query<VideosQuery>,
) -> Result<Json<VideoList>, ApiError> {
    Ok(Json(service::list(&state, &caller, query.decode()?).await?))
}

/// Returns a video and its status.
#[utoipa::path(
    get, path = "/v1/videos/{video_id}", tag = "Videos", operation_id = "get_video",
    params(("video_id" = String, Path, description = "Id of the video")),
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_video(
    ControlCaller(caller): ControlCaller,
    State(state): State<MediaState>,
    Path(id): Path<String>,
) -> Result<Json<Video>, ApiError> {
    Ok(Json(service::get(&state, &caller, &id).await?))
}

/// Deletes a video and its content.
///
/// A queued video, or one in progress, is cancelled. The job with its cost remains available at
/// `GET /v1/jobs/{job_id}`.
#[utoipa::path(
    delete, path = "/v1/videos/{video_id}", tag = "Videos", operation_id = "delete_video",
    params(("video_id" = String, Path, description = "Id of the video")),
    responses((status = 200, body = DeletedVideo), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_video(
    ControlCaller(caller): ControlCaller,
    State(state): State<MediaState>,
    Path(id): Path<String>,
) -> Result<Json<DeletedVideo>, ApiError> {
    Ok(Json(service::delete(&state, &caller, &id).await?))
}

/// Downloads a video, its thumbnail or its sprite sheet.
///
/// The `range` header is supported for the video.
#[utoipa::path(
    get, path = "/v1/videos/{video_id}/content", tag = "Videos", operation_id = "get_video_content",
    params(("video_id" = String, Path, description = "Id of the video"), ContentQuery),
    responses(
        (status = 200, description = "The video, or a JPEG image", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The requested range of the video", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_video_content(
    ControlCaller(caller): ControlCaller,
    State(state): State<MediaState>,
    method: Method,
    Path(id): Path<String>,
    Query(query): Query<ContentQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    match assets::open(&state, &caller, &id, query.decode()?).await? {
        Asset::Video(media) => {
            let disposition = Disposition::Attachment;
            let opened = Opened { media, disposition };
            Ok(outputs::respond(&state.storage, &opened, &method, &headers).await?)
        }
        Asset::Image(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            let plain = HeaderValue::from_static;
            response.headers_mut().extend([
                (CONTENT_TYPE, plain("image/jpeg")),
                (CACHE_CONTROL, plain("private, max-age=3600")),
                (X_CONTENT_TYPE_OPTIONS, plain("nosniff")),
            ]);
            Ok(response)
        }
    }
}

/// Creates a new version of a completed video with another prompt.
///
/// Model, size, duration and input images stay the same.
#[utoipa::path(
    post, path = "/v1/videos/{video_id}/remix", tag = "Videos", operation_id = "remix_video",
    params(("video_id" = String, Path, description = "Id of a completed video")),
    request_body = RemixVideo,
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn remix_video(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<Video>, ApiError> {
    let submission = Submission {
        state: &state,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    Ok(Json(service::remix(submission, &id).await?))
}
