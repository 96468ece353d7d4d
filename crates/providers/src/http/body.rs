//! Bodies as they come: bounded in size, and in the silence between two pieces.

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

/// The body of an answer, by the way that it comes.
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

/// The pieces of a body. Dropping them before the end closes the connection, or the stream of an HTTP/2 one.
#[derive(Debug)]
pub(crate) struct Pieces {
    body: AnyBody,
    idle: Duration,
    heard_at: Instant,
    /// Made at the first wait: most whole answers never wait. It is not moved at every piece but looked at when due.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    pub(super) fn new(body: AnyBody, idle: Duration) -> Self {
        Self {
            body,
            idle,
            heard_at: Instant::now(),
            alarm: None,
        }
    }

    /// The next piece; `None` at the proper end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            match self.body.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.heard_at = Instant::now();
                    // Trailers say nothing here.
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(failure::of_body(&error))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.poll_silence(cx));
                    let silence = UpstreamError::timeout("silent in the middle of the answer");
                    return Poll::Ready(Some(Err(silence)));
                }
            }
        }
    }

    /// Ready when nothing was heard for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.heard_at + self.idle;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while alarm.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }

    async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// All of it. An answer that comes in one piece is not copied.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, UpstreamError> {
        let too_large = || UpstreamError::protocol(format!("the answer is larger than {limit} bytes"));
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
                Some(piece) => all.extend_from_slice(&piece),
                None => return Ok(all.freeze()),
            }
        }
        Err(too_large())
    }

    /// At most `limit` bytes from its start, as many as come within `patience`.
    pub(super) async fn beginning(mut self, limit: usize, patience: Duration) -> Bytes {
        let mut all = BytesMut::new();
        let read = async {
            while all.len() < limit {
                match self.next().await {
                    Some(Ok(piece)) => all.extend_from_slice(&piece),
                    Some(Err(_)) | None => break,
                }
            }
        };
        // What came until then is what there is.
        let _ = timeout(patience, read).await;
        all.truncate(limit);
        all.freeze()
    }
}
