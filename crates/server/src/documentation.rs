//! Serves the OpenAPI documents, and the API references: a page for all paths below `/docs`, and on
//! the admin listener below `/admin/docs`. The pages load nothing from other origins.

mod describe;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, any, get};
use serde::Serialize;
use tollgate_edge::request_layer;
use tollgate_web::Console;
use utoipa::openapi::OpenApi;

use crate::console::pages::{self, File};

pub use describe::{Security, tidy, tidy_admin};

/// Returns the routes of the document and of the reference. `support` is the contact for callers,
/// which the document contains as `x-support`. The root leads browsers to the console, or to the
/// reference if there is no console.
pub fn routes(document: fn() -> OpenApi, support: Option<&str>, has_console: bool) -> Router {
    let start = if has_console { "/console" } else { "/docs" };
    let root = move |method, headers| async move { root(start, &method, &headers).await };
    Router::new()
        .route("/", any(root))
        .route("/openapi.json", document_route(document, support))
        .merge(reference(Console::Reference, has_console))
}

/// Returns the routes of the document and of the reference of the admin API.
pub fn admin_routes(document: fn() -> OpenApi, has_console: bool) -> Router {
    Router::new()
        .route("/admin/openapi.json", document_route(document, None))
        .merge(reference(Console::OperatorReference, has_console))
}

/// Returns the routes of a reference. They include its scripts and styles if no console serves
/// those.
fn reference(console: Console, has_console: bool) -> Router {
    let base = tollgate_web::shell(console).path;
    let page = move |headers: HeaderMap| async move { pages::page(console, base, &headers) };
    let below = move |Path(path): Path<String>, headers: HeaderMap| async move {
        below(console, &path, &headers).await
    };
    let router = Router::new()
        .route(base, get(page))
        .route(&format!("{base}/"), get(page))
        .route(&format!("{base}/{{*path}}"), get(below));
    match has_console {
        true => router,
        false => router.route("/console/assets/{*path}", get(asset)),
    }
}

/// Returns the document at a path below a reference, else the page, which routes all other paths.
async fn below(console: Console, path: &str, headers: &HeaderMap) -> Response {
    if let Some(document) = tollgate_web::document(path) {
        let file = File {
            content_type: document.content_type,
            etag: HeaderValue::from_static(document.etag),
            is_immutable: false,
            gzip: Bytes::from_static(document.gzip),
        };
        return pages::respond(file, headers);
    }
    match path.ends_with(".md") || path.ends_with(".json") {
        true => request_layer::not_found().await.into_response(),
        false => pages::page(console, tollgate_web::shell(console).path, headers),
    }
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match tollgate_web::asset(&format!("/console/assets/{path}")) {
        Some(asset) => pages::file(asset, &headers),
        None => request_layer::not_found().await.into_response(),
    }
}

/// Redirects GET and HEAD requests of browsers to `start` (303). Other requests receive status 404.
async fn root(start: &str, method: &Method, headers: &HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_browser = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_browser && matches!(*method, Method::GET | Method::HEAD) {
        return Redirect::to(start).into_response();
    }
    request_layer::not_found().await.into_response()
}

/// The OpenAPI document with the extension `x-support`.
#[derive(Serialize)]
struct Served<'a> {
    #[serde(flatten)]
    document: &'a OpenApi,
    #[serde(rename = "x-support", skip_serializing_if = "Option::is_none")]
    support: Option<&'a str>,
}

/// Returns the route of an OpenAPI document. The first request builds the document, so that a start
/// does not wait for it. It stays in memory only in its compressed form.
fn document_route(document: fn() -> OpenApi, support: Option<&str>) -> MethodRouter {
    let support = support.map(str::to_owned);
    let file = Arc::new(LazyLock::new(move || {
        let plain = rendered(&document(), support.as_deref());
        File {
            content_type: "application/json",
            etag: etag(&plain),
            is_immutable: false,
            gzip: Bytes::from(tollgate_web::compress(&plain).unwrap_or_default()),
        }
    }));
    get(move |headers: HeaderMap| {
        let file = file.clone();
        async move { pages::respond(File::clone(&file), &headers) }
    })
}

/// Serializes the document directly to bytes, because a tree of JSON values would need several
/// megabytes of memory.
fn rendered(document: &OpenApi, support: Option<&str>) -> Vec<u8> {
    serde_json::to_vec(&Served { document, support }).unwrap_or_default()
}

/// Returns an entity tag that depends on the content, the same for both of its forms.
fn etag(content: &[u8]) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let text = format!("\"{:016x}\"", hasher.finish());
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}
