//! Streamed bodies, limited in size and in the time between two chunks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tollgate_upstream::UpstreamError;

use super::failure;
use super::plain::PlainBody;

/// Body of a plain or a TLS connection.
#[derive(Debug)]
pub(super) enum AnyBody {
    Plain(PlainBody),
    Tls(Incoming),
}

impl AnyBody {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        match self {
            AnyBody::Plain(body) => Pin::new(body).poll_frame(cx),
            AnyBody::Tls(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            AnyBody::Plain(body) => body.size_hint(),
            AnyBody::Tls(body) => body.size_hint(),
        }
    }
}

/// Chunks of a body. Dropping the value before the end closes the connection or the HTTP/2 stream.
#[derive(Debug)]
pub(crate) struct BodyChunks {
    body: AnyBody,
    idle: Duration,
    last_chunk_at: Instant,
    /// Timer for the idle timeout. It is created on the first wait, because most complete responses
    /// never wait. New chunks do not reset it; when it fires, `last_chunk_at` decides.
    timer: Option<Pin<Box<Sleep>>>,
}

impl BodyChunks {
    pub(super) fn new(body: AnyBody, idle: Duration) -> Self {
        Self {
            body,
            idle,
            last_chunk_at: Instant::now(),
            timer: None,
        }
    }

    /// Returns the next chunk; `None` after a complete body.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            match self.body.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last_chunk_at = Instant::now();
                    // Trailers are ignored.
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(failure::body_error(&error))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.poll_idle_timeout(cx));
                    let silence = UpstreamError::timeout("timed out waiting for the rest of the response");
                    return Poll::Ready(Some(Err(silence)));
                }
            }
        }
    }

    /// Returns `Ready` when no data has arrived for the idle timeout.
    fn poll_idle_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.last_chunk_at + self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Reads the whole body. A body of more than `limit` bytes is an error. A body of one chunk is
    /// not copied.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, UpstreamError> {
        let too_large = || UpstreamError::protocol(format!("the response exceeds {limit} bytes"));
        let announced = self.body.size_hint().lower();
        if announced > limit as u64 {
            return Err(too_large());
        }
        let Some(first) = self.next().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.next().await.transpose()? else {
            return Ok(first);
        };
        let announced = usize::try_from(announced).unwrap_or(0);
        let mut all = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while all.len() <= limit {
            match self.next().await.transpose()? {
                Some(chunk) => all.extend_from_slice(&chunk),
                None => return Ok(all.freeze()),
            }
        }
        Err(too_large())
    }

    /// Reads up to `limit` bytes from the start, within `time_limit`.
    pub(super) async fn read_prefix(mut self, limit: usize, time_limit: Duration) -> Bytes {
        let mut all = BytesMut::new();
        let read = async {
            while all.len() < limit {
                match self.next().await {
                    Some(Ok(chunk)) => all.extend_from_slice(&chunk),
                    Some(Err(_)) | None => break,
                }
            }
        };
        // After a timeout, returns the bytes received so far.
        let _ = timeout(time_limit, read).await;
        all.truncate(limit);
        all.freeze()
    }
}
