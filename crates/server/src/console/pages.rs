//! The pages of the console: one page for all paths, and its assets.

use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LINK, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use tollgate_edge::request_layer;
use tollgate_web::{Asset, Console};

/// Content security policy of the pages: they load only from their own origin, run no inline
/// script, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' blob: data:; media-src 'self' blob:; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "microphone=(self), camera=()",
    ),
];

/// Roots of the APIs below `/console`, where unknown paths have no page.
const APIS: [&str; 3] = ["/console/api/", "/console/v1/", "/console/admin/"];

/// Returns the routes of the pages and assets of a console.
pub(super) fn routes(console: Console) -> Router {
    let serve = move |method: Method, uri: Uri, headers: HeaderMap| async move {
        serve(console, &method, uri.path(), &headers).await
    };
    Router::new()
        .route("/console", any(serve))
        .route("/console/", any(serve))
        .route("/console/{*path}", any(serve))
}

async fn serve(console: Console, method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if APIS.iter().any(|root| path.starts_with(root)) {
        return request_layer::not_found().await.into_response();
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = request_layer::method_not_allowed().await.into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
        return response;
    }
    if path.starts_with("/console/assets/") {
        return match tollgate_web::asset(path) {
            Some(asset) => file(asset, headers),
            None => request_layer::not_found().await.into_response(),
        };
    }
    page(console, path, headers)
}

/// Returns the page of a console, which routes all its paths.
pub(crate) fn page(console: Console, path: &str, requested: &HeaderMap) -> Response {
    let mut response = file(tollgate_web::shell(console), requested);
    let links = HeaderValue::from_static(tollgate_web::preload(console, path));
    response.headers_mut().insert(LINK, links);
    response
}

pub(crate) fn file(asset: &'static Asset, requested: &HeaderMap) -> Response {
    let file = File {
        content_type: asset.content_type,
        etag: HeaderValue::from_static(asset.etag),
        is_immutable: asset.is_immutable,
        gzip: Bytes::from_static(asset.gzip),
    };
    respond(file, requested)
}

/// A file in its compressed form.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) content_type: &'static str,
    pub(crate) etag: HeaderValue,
    /// Whether caches may store the file forever.
    pub(crate) is_immutable: bool,
    pub(crate) gzip: Bytes,
}

/// Returns the response for a file: compressed, decompressed for callers that do not accept gzip,
/// or 304 if the caller has it.
pub(crate) fn respond(file: File, requested: &HeaderMap) -> Response {
    let mut headers = HeaderMap::with_capacity(HEADERS.len() + 5);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let caching = match file.is_immutable {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let has = |name: HeaderName, text: &str| {
        let values = requested.get_all(name).into_iter();
        let mut parts = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        parts.any(|part| part.trim().split(';').next() == Some(text))
    };
    let is_known = file.etag.to_str().is_ok_and(|etag| has(IF_NONE_MATCH, etag));
    headers.insert(ETAG, file.etag);
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    let bytes = match has(ACCEPT_ENCODING, "gzip") {
        true => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            file.gzip
        }
        false => Bytes::from(tollgate_web::decompress(&file.gzip).unwrap_or_default()),
    };
    (headers, bytes).into_response()
}
