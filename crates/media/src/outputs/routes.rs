//! HTTP handlers of the media endpoint.

use axum::extract::{Path, RawQuery, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::Response;
use tollgate_edge::object::{self, Object};
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_storage::Media;
use tollgate_types::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Opened};
use crate::MediaState;
use crate::storage::MediaStorage;

/// Header that allows pages of other origins to embed the object.
const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns the router of the media endpoint.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new().routes(routes!(get_media))
}

/// Downloads an object by its signed URL.
///
/// The result of a job contains the URL. No API key is required. The `range` header is supported.
/// An expired URL returns status 410; poll the job for a new URL.
#[utoipa::path(
    get, path = "/v1/media/{media_id}", tag = "Jobs", operation_id = "get_media",
    params(
        ("media_id" = String, Path, description = "Id of the object, from the URL"),
        ("exp" = i64, Query, description = "Expiry of the URL, in seconds since the Unix epoch"),
        ("kid" = String, Query, description = "Id of the key that signed the URL"),
        ("sig" = String, Query, description = "Signature of the URL"),
    ),
    responses(
        (status = 200, description = "The object", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The requested range of the object", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(())
)]
async fn get_media(
    State(state): State<MediaState>,
    method: Method,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let opened = service::open(&state.storage, &id, &query.unwrap_or_default()).await?;
    Ok(respond(&state.storage, &opened, &method, &headers).await?)
}

/// Returns the object or the requested range, or status 304 if the client's copy is up to date.
pub(crate) async fn respond(
    storage: &MediaStorage,
    opened: &Opened,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let media = &opened.media;
    let object = Object {
        bytes: media.bytes,
        sha256: &media.sha256,
        media_type: &media.mime_type,
        disposition: opened.disposition.as_str(),
        filename: &file_name(media),
    };
    let open = async |range| Ok(service::bytes(storage, media, range).await?.content);
    let mut response = object::respond(&object, method, headers, open).await?;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static;
    headers.insert(CROSS_ORIGIN, plain("cross-origin"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, plain("*"));
    // The bytes never change. The URL is a secret, so shared caches must not store the object.
    headers.insert(CACHE_CONTROL, plain("private, max-age=3600, immutable"));
    Ok(response)
}

fn file_name(media: &Media) -> String {
    let ending = match &*media.mime_type {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "video/mp4" => "mp4",
        "audio/mpeg" => "mp3",
        "audio/wav" => "wav",
        "text/vtt" => "vtt",
        "application/x-subrip" => "srt",
        _ => "bin",
    };
    format!("{}.{ending}", media.id)
}
