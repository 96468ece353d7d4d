//! Request bodies of one or more chunks in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body of chunks, which are written in one vectored write without copying.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestBody {
    next: Option<Bytes>,
    rest: std::vec::IntoIter<Bytes>,
}

impl RequestBody {
    /// Returns the body as one buffer.
    pub(crate) fn joined(self) -> Bytes {
        match (self.next, self.rest.len()) {
            (Some(only), 0) => only,
            (first, _) => {
                let chunks: Vec<Bytes> = first.into_iter().chain(self.rest).collect();
                chunks.concat().into()
            }
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self {
            next: Some(bytes).filter(|bytes| !bytes.is_empty()),
            rest: Vec::new().into_iter(),
        }
    }
}

impl From<Vec<Bytes>> for RequestBody {
    fn from(chunks: Vec<Bytes>) -> Self {
        let mut rest = chunks.into_iter();
        Self {
            next: rest.next(),
            rest,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.next.take();
        self.next = self.rest.next();
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let chunks = self.next.iter().chain(self.rest.as_slice());
        SizeHint::with_exact(chunks.map(|chunk| chunk.len() as u64).sum())
    }
}
