//! Handlers.

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
use crate::MediaRoom;
use crate::shelf::Shelf;

/// Others' pages may show it.
const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The routes of this group.
pub fn routes() -> OpenApiRouter<MediaRoom> {
    OpenApiRouter::new().routes(routes!(get_media))
}

/// Opens an object by its signed address, as the results of jobs have it. It needs no key. A part of it is answered to
/// `range`. After the address's time it is 410: poll the job for a new one.
#[utoipa::path(
    get, path = "/v1/media/{media_id}", tag = "Jobs", operation_id = "get_media",
    params(
        ("media_id" = String, Path, description = "As the address has it"),
        ("exp" = i64, Query, description = "When the address ends"),
        ("kid" = String, Query, description = "Which key has signed it"),
        ("sig" = String, Query, description = "The signature"),
    ),
    responses(
        (status = 200, description = "The object", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "A part of it", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(())
)]
async fn get_media(
    State(room): State<MediaRoom>,
    method: Method,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let opened = service::open(&room.shelf, &id, &query.unwrap_or_default()).await?;
    Ok(respond(&room.shelf, &opened, &method, &headers).await?)
}

/// The object, the part of it that is asked for, or that the caller has it already.
pub(crate) async fn respond(
    shelf: &Shelf,
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
    let open = async |range| Ok(service::bytes(shelf, media, range).await?.content);
    let mut response = object::respond(&object, method, headers, open).await?;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static;
    headers.insert(CROSS_ORIGIN, plain("cross-origin"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, plain("*"));
    // Its bytes never change, and the address is a secret of whoever has it.
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
