//! Request bodies: checks of type, size and transfer rate before decoding.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};
use tollgate_types::{Error, ErrorCode};

use crate::context::context_of;
use crate::error::ApiError;

/// Maximum body size of a route with inline media, in bytes.
pub const MEDIA_BODY: usize = 32 * 1024 * 1024;
/// Default maximum body size of JSON routes without inline media, in bytes.
pub const JSON_BODY: usize = 8 * 1024 * 1024;
/// Minimum transfer rate of a body after the grace period.
const MIN_BYTES_PER_SECOND: u64 = 1024;

/// The bytes of a body with a JSON content type or none, at most `LIMIT` bytes. The format's
/// decoder checks the JSON itself.
#[derive(Debug)]
pub struct JsonBody<const LIMIT: usize>(pub Bytes);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for JsonBody<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        check_type(&parts.headers)?;
        let grace_period = context_of(&parts)?.body_grace_period;
        Ok(Self(read(&parts.headers, body, LIMIT, grace_period).await?))
    }
}

/// Returns an error if the body has a content encoding other than `identity`.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let message = "Compressed request bodies are not accepted: send the body without 'content-encoding'.";
        return Err(Error::new(ErrorCode::UnsupportedMediaType, message));
    }
    Ok(())
}

fn check_type(headers: &HeaderMap) -> Result<(), Error> {
    check_encoding(headers)?;
    let Some(content_type) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = content_type
        .as_bytes()
        .split(|b| *b == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let message = "The body must be JSON: send 'content-type: application/json'.";
    Err(Error::new(ErrorCode::UnsupportedMediaType, message))
}

pub(crate) fn check_length(headers: &HeaderMap, limit: usize) -> Result<(), Error> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok());
    if length.is_some_and(|length: usize| length > limit) {
        Err(too_large(limit))
    } else {
        Ok(())
    }
}

fn too_large(limit: usize) -> Error {
    let mebibytes = limit / (1024 * 1024);
    let message = format!("The body is larger than {mebibytes} MiB, the maximum for this request.");
    Error::new(ErrorCode::RequestTooLarge, message)
}

/// Reads a body of at most `limit` bytes. After `grace_period`, the transfer rate must not fall
/// below the minimum.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    grace_period: Duration,
) -> Result<Bytes, Error> {
    check_length(headers, limit)?;
    let expected = usize::try_from(body.size_hint().lower())
        .unwrap_or(limit)
        .min(limit);
    let mut chunks = BodyChunks::new(body, limit, grace_period);
    let mut whole = BytesMut::new();
    while let Some(data) = chunks.next().await? {
        if whole.is_empty() && chunks.body.is_end_stream() {
            return Ok(data);
        }
        if whole.is_empty() {
            whole.reserve(expected.max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Reader of a body in chunks, with a maximum size and a minimum transfer rate.
pub(crate) struct BodyChunks {
    body: Body,
    limit: usize,
    grace_period: Duration,
    received: usize,
    started: Option<Instant>,
}

impl BodyChunks {
    /// Creates a reader of at most `limit` bytes. After `grace_period`, the transfer rate must not
    /// fall below the minimum.
    pub(crate) fn new(body: Body, limit: usize, grace_period: Duration) -> Self {
        Self {
            body,
            limit,
            grace_period,
            received: 0,
            started: None,
        }
    }

    /// Returns the next chunk, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            // Most bodies have already arrived, so that no timer is needed.
            let frame = match self.body.frame().now_or_never() {
                Some(frame) => frame,
                None => {
                    let since = *self.started.get_or_insert_with(Instant::now);
                    let earned = Duration::from_secs(self.received as u64 / MIN_BYTES_PER_SECOND);
                    timeout_at(since + self.grace_period + earned, self.body.frame())
                        .await
                        .map_err(|_| too_slow())?
                }
            };
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            self.received += data.len();
            if self.received > self.limit {
                return Err(too_large(self.limit));
            }
            return Ok(Some(data));
        }
    }
}

fn too_slow() -> Error {
    let message = "The body arrived too slowly. Send it immediately, at 1 KiB/s or faster.";
    Error::new(ErrorCode::RequestTimeout, message)
}

fn broken(error: &axum::Error) -> Error {
    Error::new(ErrorCode::InvalidJson, "The body ended before it was complete.")
        .with_source(error.to_string())
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    const GRACE_PERIOD: Duration = Duration::from_secs(10);

    fn chunks(chunks: Vec<&'static [u8]>) -> Body {
        Body::from_stream(stream::iter(
            chunks
                .into_iter()
                .map(|chunk| Ok::<_, std::io::Error>(Bytes::from_static(chunk))),
        ))
    }

    #[tokio::test]
    async fn reads_up_to_the_limit() {
        assert_eq!(
            read(&HeaderMap::new(), chunks(vec![b"ab", b"cd"]), 4, GRACE_PERIOD)
                .await
                .unwrap(),
            "abcd"
        );
        assert_eq!(
            read(&HeaderMap::new(), Body::from("abcd"), 4, GRACE_PERIOD)
                .await
                .unwrap(),
            "abcd"
        );
        assert_eq!(
            read(&HeaderMap::new(), Body::empty(), 4, GRACE_PERIOD)
                .await
                .unwrap(),
            ""
        );
        let error = read(&HeaderMap::new(), chunks(vec![b"ab", b"cde"]), 4, GRACE_PERIOD)
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::RequestTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let never = stream::pending::<Result<Bytes, std::io::Error>>();
        let error = read(&HeaderMap::new(), Body::from_stream(never), 4, GRACE_PERIOD)
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::RequestTimeout);
    }

    #[test]
    fn only_uncompressed_json_is_accepted() {
        let cases = [
            (None, None, true),
            (Some("application/json"), None, true),
            (Some("Application/JSON; charset=utf-8"), Some("identity"), true),
            (Some("text/plain"), None, false),
            (Some("application/x-www-form-urlencoded"), None, false),
            (Some("application/json"), Some("gzip"), false),
        ];
        for (content_type, encoding, is_accepted) in cases {
            let mut headers = HeaderMap::new();
            content_type.map(|value| headers.insert(CONTENT_TYPE, value.parse().unwrap()));
            encoding.map(|value| headers.insert(CONTENT_ENCODING, value.parse().unwrap()));
            assert_eq!(
                check_type(&headers).is_ok(),
                is_accepted,
                "{content_type:?} {encoding:?}"
            );
        }
    }
}
