//! Bodies of requests that are answered before the body is read, such as with 401 or 429. The HTTP
//! library closes the connection of an unread body. A caller that sends the head and the body in
//! separate packets would then fail on its next request.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::response::Response;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::timeout;

/// Maximum size of an unread body that the gateway reads in order to keep the connection.
const MAX_UNREAD_BYTES: u64 = 256 * 1024;
/// Maximum time for reading an unread body. The response is delayed by at most this time.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The unread body of a connection's current request, if its handler dropped it.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    /// Returns the request with a body that moves to `self` if it is dropped before its end.
    pub(crate) fn watch(&self, request: http::Request<Incoming>) -> http::Request<WatchedBody> {
        self.replace(None);
        request.map(|body| WatchedBody {
            unread: self.clone(),
            body: Some(body),
        })
    }

    /// Reads the rest of the body, or adds `connection: close` to the response if that would take
    /// too long or if the caller waits for `100 Continue` before it sends the body.
    pub(crate) async fn finish(&self, expects_continue: bool, response: &mut Response) {
        let Some(body) = self.replace(None) else { return };
        if expects_continue || !discard(body).await {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }

    fn replace(&self, body: Option<Incoming>) -> Option<Incoming> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), body)
    }
}

/// Whether the caller waits for `100 Continue` before it sends the body.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.contains_key(EXPECT)
}

/// Reads a body to its end. Returns false if it is too long, too slow or broken.
async fn discard(mut body: Incoming) -> bool {
    if body.size_hint().lower() > MAX_UNREAD_BYTES {
        return false;
    }
    let read = async {
        let mut discarded = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
            if discarded > MAX_UNREAD_BYTES {
                return false;
            }
        }
        true
    };
    timeout(UNREAD_TIMEOUT, read).await.unwrap_or(false)
}

/// Request body that moves to [`Unread`] if its handler drops it before its end.
pub(crate) struct WatchedBody {
    unread: Unread,
    /// `None` only while the body is dropped.
    body: Option<Incoming>,
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.unread.replace(Some(body));
        }
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.body.as_mut() {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(SizeHint::default, Incoming::size_hint)
    }
}
