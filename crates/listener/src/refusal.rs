//! The end of a connection. Bytes that are not an HTTP request receive an error response like any
//! other failure. The server then reads the remaining bytes for up to two seconds, because closing
//! a socket with unread bytes can destroy a response in transit.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONNECTION;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_edge::{ApiError, RequestLayer};
use tollgate_types::{Error, ErrorCode};

/// Maximum duration of each step: writing the refusal, then reading the remaining bytes.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;

/// Returns the error for an unreadable request head; `status` is the HTTP library's response.
pub(crate) fn unreadable(status: StatusCode) -> Error {
    match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Error::new(
            ErrorCode::RequestTooLarge,
            "The request line and headers are too large. The limits are 32 KiB and 100 headers.",
        ),
        _ => Error::new(
            ErrorCode::InvalidParameter,
            "This is not an HTTP/1.1 request: the request line or the headers are malformed.",
        ),
    }
}

/// Returns the response to an ambiguous request, with `connection: close`.
pub(crate) fn misframed(status: StatusCode) -> Response {
    let message = match status {
        StatusCode::NOT_IMPLEMENTED => {
            "'Transfer-Encoding' contains an unknown transfer coding. Send only 'chunked'."
        }
        _ => {
            "The request is ambiguous. Send 'Host' exactly once, and at most one of 'Content-Length' and \
             'Transfer-Encoding: chunked'."
        }
    };
    let mut response = ApiError(Error::new(ErrorCode::InvalidParameter, message)).into_response();
    *response.status_mut() = status;
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// Returns the error for a request head that did not arrive in time.
pub(crate) fn too_slow() -> Error {
    let message = "The request line and headers arrived too slowly. Send them immediately.";
    Error::new(ErrorCode::RequestTimeout, message)
}

/// Writes an error response with all usual headers. The connection is not used again.
pub(crate) async fn refuse(
    request_layer: &RequestLayer,
    peer: IpAddr,
    stream: &mut TcpStream,
    mut refusal: Response,
) {
    refusal.headers_mut().remove(CONNECTION);
    // The request has neither a method nor a path, so the log shows placeholders.
    let request = http::Request::builder().method("-").uri("*").body(Body::empty());
    let Ok(request) = request else { return };
    let response = request_layer.serve(peer, request, |_| async { refusal }).await;
    let bytes = to_http_bytes(response).await;
    // The timeout drops callers that do not read the response.
    let _ = timeout(LINGER_TIMEOUT, stream.write_all(&bytes)).await;
}

/// Closes the sending side, then reads and discards bytes until the caller closes its side, for at
/// most two seconds and 64 MiB.
pub(crate) async fn linger(mut stream: TcpStream) {
    let read = async {
        let _ = stream.shutdown().await;
        let (mut buffer, mut discarded) = ([0; 8 * 1024], 0);
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            discarded += count;
            if discarded > MAX_DISCARDED_BYTES {
                break;
            }
        }
    };
    let _ = timeout(LINGER_TIMEOUT, read).await;
}

async fn to_http_bytes(response: Response) -> Vec<u8> {
    let (head, body) = response.into_parts();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
        .extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_written_with_its_length() {
        let response = ApiError(too_slow()).into_response();
        let text = String::from_utf8(to_http_bytes(response).await).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
            "{head}"
        );
        assert!(body.starts_with(r#"{"error":{"message":"#), "{body}");
    }

    #[test]
    fn large_heads_and_malformed_heads_have_their_own_errors() {
        assert_eq!(
            unreadable(StatusCode::URI_TOO_LONG).code,
            ErrorCode::RequestTooLarge
        );
        assert_eq!(
            unreadable(StatusCode::BAD_REQUEST).code,
            ErrorCode::InvalidParameter
        );
    }
}
