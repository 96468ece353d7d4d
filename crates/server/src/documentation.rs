//! `/openapi.json`, and `/docs`, which shows it to people. The page loads nothing from elsewhere.

mod describe;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Redirect;
use axum::routing::{MethodRouter, get};
use serde::Serialize;
use utoipa::openapi::OpenApi;

pub use describe::{Security, tidy, tidy_admin};

const PAGE: &str = include_str!("../assets/documentation/page.html");
const SCRIPT: &str = include_str!("../assets/documentation/page.js");
const STYLE: &str = include_str!("../assets/documentation/page.css");

/// What the page may do: run its own script, use its own style, read the document.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Serves the document and the page. `support` is whom callers ask for help; it is part of the served document as
/// `x-support`.
pub fn routes(document: OpenApi, support: Option<&str>) -> Router {
    let document = rendered(&document, support);
    Router::new()
        .route("/openapi.json", asset("application/json", document))
        .route("/docs", asset("text/html; charset=utf-8", PAGE.into()))
        .route("/docs/", get(|| async { Redirect::permanent("/docs") }))
        .route(
            "/docs/page.js",
            asset("text/javascript; charset=utf-8", SCRIPT.into()),
        )
        .route("/docs/page.css", asset("text/css; charset=utf-8", STYLE.into()))
}

/// Serves a document alone.
pub fn document_route<S: Clone + Send + Sync + 'static>(document: OpenApi) -> MethodRouter<S> {
    asset("application/json", rendered(&document, None))
}

/// The document as it is served.
#[derive(Serialize)]
struct Served<'a> {
    #[serde(flatten)]
    document: &'a OpenApi,
    #[serde(rename = "x-support", skip_serializing_if = "Option::is_none")]
    support: Option<&'a str>,
}

/// The document as it is served, made once. It is written as it is: as a tree of values it would take several megabytes.
fn rendered(document: &OpenApi, support: Option<&str>) -> Bytes {
    Bytes::from(serde_json::to_vec(&Served { document, support }).unwrap_or_default())
}

fn asset<S: Clone + Send + Sync + 'static>(content_type: &'static str, bytes: Bytes) -> MethodRouter<S> {
    let headers = headers(content_type);
    get(move || async move { (headers, bytes) })
}

/// The type, and that nothing may be guessed, framed, loaded from elsewhere or told elsewhere.
fn headers(content_type: &'static str) -> [(HeaderName, &'static str); 5] {
    [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ]
}
