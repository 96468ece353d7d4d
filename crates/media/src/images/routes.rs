//! HTTP handlers of the image endpoints.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::job_reference::{accepted, prefer_wait, preference_applied};
use tollgate_edge::{ApiError, ErrorBody, FormBody, JsonBody, Origin, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::form::MAX_FORM_BYTES;
use super::service::{self, Answer, SYNC_TIMEOUT};
use super::wire::{EditImages, GenerateImages, ImagesOrJob, VaryImage};
use crate::MediaState;
use crate::jobs::POLL_SECONDS;
use crate::submission::Submission;

/// Returns the router of the image endpoints.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(generate_images))
        .routes(routes!(edit_images))
        .routes(routes!(vary_image))
}

/// Generates, edits, inpaints or varies images.
///
/// By default, the response is a job to poll. The response contains the images if the request has
/// `sync: true` or the header `prefer: wait=SECONDS`, or if this is the default of the key. If the
/// images are not ready after the wait, at most four minutes, the response is the job.
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
    State(state): State<MediaState>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let submission = Submission {
        state: &state,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    let prefer = prefer_wait(&headers, SYNC_TIMEOUT);
    Ok(response(service::create(submission, prefer).await?, prefer))
}

/// Edits or inpaints images (compatible with OpenAI's API).
///
/// The request is a multipart form with one or more images, and a mask for inpainting. The response
/// contains the images. If they take longer than four minutes, or if `sync` is false, the response
/// is a job to poll.
#[utoipa::path(
    post, path = "/v1/images/edits", tag = "Images", operation_id = "edit_images",
    request_body(content = EditImages, content_type = "multipart/form-data"),
    responses((status = 200, body = ImagesOrJob), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn edit_images(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    headers: HeaderMap,
    FormBody(fields): FormBody<MAX_FORM_BYTES>,
) -> Result<Response, ApiError> {
    let submission = Submission::of_form(&state, &ctx, caller, origin);
    let prefer = prefer_wait(&headers, SYNC_TIMEOUT);
    Ok(response(service::edit(submission, fields, prefer).await?, prefer))
}

/// Creates variations of an image (compatible with OpenAI's API).
///
/// The request is a multipart form. The response contains the images. If they take longer than four
/// minutes, or if `sync` is false, the response is a job to poll.
#[utoipa::path(
    post, path = "/v1/images/variations", tag = "Images", operation_id = "vary_image",
    request_body(content = VaryImage, content_type = "multipart/form-data"),
    responses((status = 200, body = ImagesOrJob), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn vary_image(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    headers: HeaderMap,
    FormBody(fields): FormBody<MAX_FORM_BYTES>,
) -> Result<Response, ApiError> {
    let submission = Submission::of_form(&state, &ctx, caller, origin);
    let prefer = prefer_wait(&headers, SYNC_TIMEOUT);
    Ok(response(service::vary(submission, fields, prefer).await?, prefer))
}

/// Builds the response, with the header `preference-applied` (RFC 7240) if a wait was requested.
fn response(answer: Answer, prefer: Option<Duration>) -> Response {
    let mut response = match answer {
        Answer::Completed(images) => Json(images).into_response(),
        Answer::Accepted(reference) => accepted(&reference, StatusCode::OK, POLL_SECONDS),
    };
    if let Some(wait) = prefer {
        preference_applied(&mut response, wait);
    }
    response
}
