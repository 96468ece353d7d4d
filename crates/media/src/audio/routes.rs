//! HTTP handlers of the audio endpoints.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::stream;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, FormBody, JsonBody, Origin, WorkCaller};
use tollgate_pipeline::DeliveredSpeech;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::read::MAX_FORM_BYTES;
use super::service;
use super::wire::{CreateSpeech, CreateTranscription, CreateTranslation, Transcription};
use crate::MediaState;
use crate::submission::Submission;

/// Returns the router of the audio endpoints.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(create_speech))
        .routes(routes!(create_transcription))
        .routes(routes!(create_translation))
}

/// Creates speech from text.
///
/// The response body is the audio file. It is streamed while the model generates it. The request is
/// not charged if the model fails before the audio is complete, but it is charged if the client
/// disconnects.
#[utoipa::path(
    post, path = "/v1/audio/speech", tag = "Audio", operation_id = "create_speech",
    request_body = CreateSpeech,
    responses(
        (status = 200, description = "The audio file", content_type = "audio/mpeg", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_speech(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let submission = Submission {
        state: &state,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    let (voice, media_type) = service::speak(submission).await?;
    let body = match voice {
        DeliveredSpeech::Whole(audio, _) => Body::from(audio),
        DeliveredSpeech::Stream(chunks) => {
            Body::from_stream(stream::unfold(chunks, |mut chunks| async move {
                let chunk = chunks.recv().await?;
                Some((chunk, chunks))
            }))
        }
    };
    Ok(response(media_type, body))
}

/// Transcribes a recording.
///
/// The recording may have at most 25 MiB. The response is JSON, plain text or subtitles, depending
/// on `response_format`.
#[utoipa::path(
    post, path = "/v1/audio/transcriptions", tag = "Audio", operation_id = "create_transcription",
    request_body(content = CreateTranscription, content_type = "multipart/form-data"),
    responses((status = 200, body = Transcription), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_transcription(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    FormBody(fields): FormBody<MAX_FORM_BYTES>,
) -> Result<Response, ApiError> {
    let submission = Submission::of_form(&state, &ctx, caller, origin);
    let (text, media_type) = service::transcribe(submission, fields, false).await?;
    Ok(response(media_type, Body::from(text)))
}

/// Transcribes a recording and translates it into English.
///
/// The recording may have at most 25 MiB and be in any language. The response is JSON, plain text
/// or subtitles, depending on `response_format`.
#[utoipa::path(
    post, path = "/v1/audio/translations", tag = "Audio", operation_id = "create_translation",
    request_body(content = CreateTranslation, content_type = "multipart/form-data"),
    responses((status = 200, body = Transcription), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_translation(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    FormBody(fields): FormBody<MAX_FORM_BYTES>,
) -> Result<Response, ApiError> {
    let submission = Submission::of_form(&state, &ctx, caller, origin);
    let (text, media_type) = service::transcribe(submission, fields, true).await?;
    Ok(response(media_type, Body::from(text)))
}

fn response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
