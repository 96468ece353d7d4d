//! JSON responses from serialized bytes.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

/// Returns a response whose body is this JSON text.
pub fn response(bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
