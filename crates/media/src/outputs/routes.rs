//! Handlers.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_storage::Media;
use tollgate_types::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::range::{Wanted, wanted};
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
    let tag = format!("\"{}\"", hex(&media.sha256));
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(IF_NONE_MATCH).is_some_and(|known| known == "*" || known.split(',').any(|one| one.trim() == tag))
    {
        return dressed(StatusCode::NOT_MODIFIED, Body::empty(), opened, &tag);
    }
    let is_same = text(IF_RANGE).is_none_or(|known| known.trim() == tag);
    let part = match text(RANGE)
        .filter(|_| is_same)
        .map(|range| wanted(range, media.bytes))
    {
        None | Some(Wanted::Whole) => None,
        Some(Wanted::Part(range)) => Some(range),
        Some(Wanted::Nothing) => return no_such_part(opened, &tag),
    };
    let status = if part.is_some() {
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    };
    let range = part.clone().unwrap_or(0..media.bytes);
    let body = match *method == Method::HEAD {
        true => Body::empty(),
        false => Body::from_stream(service::bytes(shelf, media, part.clone()).await?.content),
    };
    let mut response = dressed(status, body, opened, &tag)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    if part.is_some() {
        let said = format!(
            "bytes {}-{}/{}",
            range.start,
            range.end.saturating_sub(1),
            media.bytes
        );
        headers.insert(CONTENT_RANGE, value(said)?);
    }
    Ok(response)
}

fn no_such_part(opened: &Opened, tag: &str) -> Result<Response, Error> {
    let mut response = dressed(StatusCode::RANGE_NOT_SATISFIABLE, Body::empty(), opened, tag)?;
    let said = value(format!("bytes */{}", opened.media.bytes))?;
    response.headers_mut().insert(CONTENT_RANGE, said);
    Ok(response)
}

/// Whatever it is, a browser runs nothing of it.
fn dressed(status: StatusCode, body: Body, opened: &Opened, tag: &str) -> Result<Response, Error> {
    let media = &opened.media;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, value(media.mime_type.clone())?);
    let name = format!(
        "{}; filename=\"{}\"",
        opened.disposition.as_str(),
        file_name(media)
    );
    headers.insert(CONTENT_DISPOSITION, value(name)?);
    headers.insert(ETAG, value(tag.to_owned())?);
    headers.insert(ACCEPT_RANGES, plain("bytes"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, plain("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, plain("default-src 'none'; sandbox"));
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(text: String) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(text).map_err(|error| Error::internal(error.to_string()))
}
