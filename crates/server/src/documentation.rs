//! Serves the OpenAPI document at `/openapi.json`, and at `/docs` a page that renders it. The page
//! loads nothing from other origins.

mod describe;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, any, get};
use serde::Serialize;
use tollgate_edge::request_layer;
use utoipa::openapi::OpenApi;

pub use describe::{Security, tidy, tidy_admin};

const PAGE: &str = include_str!("../assets/documentation/page.html");
const SCRIPT: &str = include_str!("../assets/documentation/page.js");
const STYLE: &str = include_str!("../assets/documentation/page.css");

/// Content security policy of the page, which allows its own script and style, and requests to its
/// own origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Returns the routes of the document and of the page. `support` is the contact for callers, which
/// the document contains as `x-support`. The root leads browsers to the console, or to the page if
/// there is no console.
pub fn routes(document: OpenApi, support: Option<&str>, has_console: bool) -> Router {
    let document = rendered(&document, support);
    let start = if has_console { "/console" } else { "/docs" };
    let root = move |method, headers| async move { root(start, &method, &headers).await };
    Router::new()
        .route("/", any(root))
        .route("/openapi.json", asset("application/json", document))
        .route("/docs", asset("text/html; charset=utf-8", PAGE.into()))
        .route("/docs/", get(|| async { Redirect::permanent("/docs") }))
        .route(
            "/docs/page.js",
            asset("text/javascript; charset=utf-8", SCRIPT.into()),
        )
        .route("/docs/page.css", asset("text/css; charset=utf-8", STYLE.into()))
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

/// Returns the route of a document without a page.
pub fn document_route<S: Clone + Send + Sync + 'static>(document: OpenApi) -> MethodRouter<S> {
    asset("application/json", rendered(&document, None))
}

/// The OpenAPI document with the extension `x-support`.
#[derive(Serialize)]
struct Served<'a> {
    #[serde(flatten)]
    document: &'a OpenApi,
    #[serde(rename = "x-support", skip_serializing_if = "Option::is_none")]
    support: Option<&'a str>,
}

/// Serializes the document directly to bytes, because a tree of JSON values would need several
/// megabytes of memory.
fn rendered(document: &OpenApi, support: Option<&str>) -> Bytes {
    Bytes::from(serde_json::to_vec(&Served { document, support }).unwrap_or_default())
}

fn asset<S: Clone + Send + Sync + 'static>(content_type: &'static str, bytes: Bytes) -> MethodRouter<S> {
    let headers = headers(content_type);
    get(move || async move { (headers, bytes) })
}

/// Returns the response headers: the content type, revalidation of cached copies, and protection
/// against sniffing, framing and foreign content.
fn headers(content_type: &'static str) -> [(HeaderName, &'static str); 5] {
    [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ]
}
