//! Answers in JSON that are written already.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

/// An answer with these bytes, which are JSON.
pub fn response(bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
