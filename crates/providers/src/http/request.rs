//! Request bodies: bytes that are all there, in one piece or several.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body in pieces, which are written together and never copied into one.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    next: Option<Bytes>,
    rest: std::vec::IntoIter<Bytes>,
}

impl RequestBody {
    /// All of it in one piece.
    pub(crate) fn joined(self) -> Bytes {
        match (self.next, self.rest.len()) {
            (Some(only), 0) => only,
            (first, _) => {
                let pieces: Vec<Bytes> = first.into_iter().chain(self.rest).collect();
                pieces.concat().into()
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
    fn from(pieces: Vec<Bytes>) -> Self {
        let mut rest = pieces.into_iter();
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
        let piece = self.next.take();
        self.next = self.rest.next();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let pieces = self.next.iter().chain(self.rest.as_slice());
        SizeHint::with_exact(pieces.map(|piece| piece.len() as u64).sum())
    }
}
