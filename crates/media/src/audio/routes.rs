//! Handlers.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, FormBody, JsonBody, Origin, WorkCaller};
use tollgate_pipeline::Voice;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::read::FORM;
use super::service;
use super::wire::{CreateSpeech, CreateTranscription, Transcription};
use crate::MediaRoom;
use crate::submission::Asked;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new()
        .routes(routes!(create_speech))
        .routes(routes!(create_transcription))
}

/// Speaks a text. The answer is the sound, which begins to come as soon as the model has begun to speak. An answer that
/// breaks off was not charged.
#[utoipa::path(
    post, path = "/v1/audio/speech", tag = "Audio", operation_id = "create_speech",
    request_body = CreateSpeech,
    responses(
        (status = 200, description = "The sound", content_type = "audio/mpeg", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_speech(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(room): State<MediaRoom>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body,
    };
    let (voice, media_type) = service::speak(asked).await?;
    let body = match voice {
        Voice::Whole(sound, _) => Body::from(sound),
        Voice::Stream(pieces) => Body::from_stream(stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.recv().await?;
            Some((piece, pieces))
        })),
    };
    Ok(response(media_type, body))
}

/// Writes down what is said in a recording of at most 25 MiB. The answer is JSON, plain text or subtitles, as
/// `response_format` says.
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
    State(room): State<MediaRoom>,
    FormBody(fields): FormBody<FORM>,
) -> Result<Response, ApiError> {
    let asked = Asked {
        room: &room,
        ctx: &ctx,
        caller,
        origin,
        body: Bytes::new(),
    };
    let (text, media_type) = service::transcribe(asked, fields).await?;
    Ok(response(media_type, Body::from(text)))
}

fn response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
