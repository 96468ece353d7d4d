//! Handlers.

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
use crate::MediaRoom;
use crate::outputs::{self, Opened};
use crate::submission::Asked;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new()
        .routes(routes!(create_video, list_videos))
        .routes(routes!(get_video, delete_video))
        .routes(routes!(get_video_content))
        .routes(routes!(remix_video))
}

/// JSON or a form. The size and the pace of both are judged alike.
impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let said = request.headers().get(CONTENT_TYPE);
        if !said.is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data")) {
            let JsonBody(body) = JsonBody::<MEDIA_BODY>::from_request(request, state).await?;
            return Ok(Self::Json(body));
        }
        let FormBody(fields) = FormBody::<MEDIA_BODY>::from_request(request, state).await?;
        Ok(Self::Form(fields))
    }
}

/// Makes a film, in the shape that OpenAI's clients know. The body is JSON, or a form with a file as `input_reference`. It is
/// the same as `POST /v1/videos/generations`, and its job is at `GET /v1/jobs/{job_id}`, too.
#[utoipa::path(
    post, path = "/v1/videos", tag = "Videos", operation_id = "create_video", request_body = CreateVideo,
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_video(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    sent: Sent,
) -> Result<Json<Video>, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body: bytes::Bytes::new(),
    };
    Ok(Json(service::create(asked, &sent).await?))
}

/// Lists films, newest first unless `order` is `asc`.
#[utoipa::path(
    get, path = "/v1/videos", tag = "Videos", operation_id = "list_videos", params(VideosQuery),
    responses((status = 200, body = VideoList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_videos(
    ControlCaller(caller): ControlCaller,
    State(room): State<MediaRoom>,
    Query(query): Query<VideosQuery>,
) -> Result<Json<VideoList>, ApiError> {
    Ok(Json(service::list(&room, &caller, query.decode()?).await?))
}

/// Polls a film.
#[utoipa::path(
    get, path = "/v1/videos/{video_id}", tag = "Videos", operation_id = "get_video",
    params(("video_id" = String, Path, description = "The film's `id`")),
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_video(
    ControlCaller(caller): ControlCaller,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
) -> Result<Json<Video>, ApiError> {
    Ok(Json(service::get(&room, &caller, &id).await?))
}

/// Deletes a film and its content; one that is not made yet is cancelled. What it cost stays known: its job is still at
/// `GET /v1/jobs/{job_id}`.
#[utoipa::path(
    delete, path = "/v1/videos/{video_id}", tag = "Videos", operation_id = "delete_video",
    params(("video_id" = String, Path, description = "The film's `id`")),
    responses((status = 200, body = DeletedVideo), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_video(
    ControlCaller(caller): ControlCaller,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
) -> Result<Json<DeletedVideo>, ApiError> {
    Ok(Json(service::delete(&room, &caller, &id).await?))
}

/// Answers the film itself, or small pictures of it. A part of the film is answered to `range`.
#[utoipa::path(
    get, path = "/v1/videos/{video_id}/content", tag = "Videos", operation_id = "get_video_content",
    params(("video_id" = String, Path, description = "The film's `id`"), ContentQuery),
    responses(
        (status = 200, description = "The film, or a JPEG", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "A part of the film", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_video_content(
    ControlCaller(caller): ControlCaller,
    State(room): State<MediaRoom>,
    method: Method,
    Path(id): Path<String>,
    Query(query): Query<ContentQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    match assets::open(&room, &caller, &id, query.decode()?).await? {
        Asset::Film(media) => {
            let disposition = Disposition::Attachment;
            let opened = Opened { media, disposition };
            Ok(outputs::respond(&room.shelf, &opened, &method, &headers).await?)
        }
        Asset::Picture(bytes) => {
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

/// Makes a film again with another prompt: with the same model, size, length and pictures.
#[utoipa::path(
    post, path = "/v1/videos/{video_id}/remix", tag = "Videos", operation_id = "remix_video",
    params(("video_id" = String, Path, description = "The `id` of a completed film")),
    request_body = RemixVideo,
    responses((status = 200, body = Video), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn remix_video(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<Video>, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    Ok(Json(service::remix(asked, &id).await?))
}
