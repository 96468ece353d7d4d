//! The end of a connection: what is no request gets an answer like every other failure, and whoever still sends is
//! listened to for a moment, because closing a socket with unread bytes destroys the answer on its way.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_edge::{ApiError, Shell};
use tollgate_types::{Error, ErrorCode};

/// How long, and for how many bytes, a caller is listened to that was answered before it had said everything.
const LINGER: Duration = Duration::from_secs(2);
const MOST_IGNORED: usize = 64 * 1024 * 1024;

/// The failure of a request whose head could not be read; `status` is how the HTTP library names it.
pub(super) fn unreadable(status: StatusCode) -> Error {
    match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Error::new(
            ErrorCode::RequestTooLarge,
            "The request's first line and headers are larger than what is taken: 32 KiB and 100 headers.",
        ),
        _ => Error::new(
            ErrorCode::InvalidParameter,
            "This is not an HTTP/1.1 request: its first line or its headers cannot be read.",
        ),
    }
}

/// The failure of a request whose head did not come in time.
pub(super) fn too_slow() -> Error {
    let message = "The request's path and headers arrived too slowly. Send them at once.";
    Error::new(ErrorCode::RequestTimeout, message)
}

/// Answers with a failure in the shape of every other one; the connection is not used again.
pub(super) async fn refuse(shell: &Shell, peer: IpAddr, stream: &mut TcpStream, error: Error) {
    // There is no method and no path: it is logged as one request of neither.
    let request = http::Request::builder().method("-").uri("*").body(Body::empty());
    let Ok(request) = request else { return };
    let response = shell
        .serve(peer, request, |_| async { ApiError(error).into_response() })
        .await;
    let bytes = written(response).await;
    // A caller that reads nothing has waited long enough.
    let _ = timeout(LINGER, stream.write_all(&bytes)).await;
}

/// Waits until the other side has closed, too, reading what it still sends.
pub(super) async fn linger(mut stream: TcpStream) {
    let read = async {
        let _ = stream.shutdown().await;
        let (mut buffer, mut ignored) = ([0; 8 * 1024], 0);
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            ignored += count;
            if ignored > MOST_IGNORED {
                break;
            }
        }
    };
    let _ = timeout(LINGER, read).await;
}

async fn written(response: Response) -> Vec<u8> {
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
        let text = String::from_utf8(written(response).await).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
            "{head}"
        );
        assert!(body.starts_with(r#"{"error":{"message":"#), "{body}");
    }

    #[test]
    fn large_heads_are_told_apart_from_broken_ones() {
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
