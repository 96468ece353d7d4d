//! Forms whose files are too large for memory: their parts come one by one, and each in pieces.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tollgate_types::Error;

use crate::body::{self, Pieces};
use crate::context::context_of;
use crate::error::ApiError;
use crate::form::{MOST_FIELDS, boundary, malformed, no_form};

/// What became of the body behind a form, where that is why it cannot be read.
type Fault = Arc<Mutex<Option<Error>>>;

/// A form of at most `LIMIT` bytes.
pub struct Upload<const LIMIT: usize> {
    form: Multipart,
    fault: Fault,
    parts: usize,
    /// Bytes of the whole body, where its sender has said so.
    pub length: Option<u64>,
}

/// A part of a form.
pub struct Part<'f> {
    field: Field<'f>,
    fault: &'f Fault,
}

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for Upload<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        body::check_encoding(&parts.headers)?;
        if boundary(&parts.headers).is_none() {
            return Err(no_form().into());
        }
        body::check_length(&parts.headers, LIMIT)?;
        let free_time = context_of(&parts)?.body_time;
        let said = |name| parts.headers.get(name)?.to_str().ok();
        let length = said(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let fault = Fault::default();
        let pieces = Some((Pieces::new(body, LIMIT, free_time), fault.clone()));
        let pieces = stream::unfold(pieces, async |pieces| {
            let (mut pieces, fault) = pieces?;
            match pieces.next().await {
                Ok(piece) => Some((Ok(piece?), Some((pieces, fault)))),
                Err(error) => {
                    let text = error.message.clone();
                    *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Some((Err(std::io::Error::other(text)), None))
                }
            }
        });
        let mut form = Request::new(Body::from_stream(pieces));
        if let Some(content_type) = parts.headers.get(CONTENT_TYPE) {
            form.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        }
        // Its pieces are counted already.
        DefaultBodyLimit::disable().apply(&mut form);
        let form = Multipart::from_request(form, &()).await;
        Ok(Self {
            form: form.map_err(|error| malformed(error.to_string()))?,
            fault,
            parts: 0,
            length,
        })
    }
}

impl<const LIMIT: usize> Upload<LIMIT> {
    /// The next part, once the one before was read or is not wanted.
    pub async fn next(&mut self) -> Result<Option<Part<'_>>, Error> {
        if self.parts == MOST_FIELDS {
            return Err(malformed(format!("more than {MOST_FIELDS} fields")));
        }
        self.parts += 1;
        let field = self.form.next_field().await;
        let field = field.map_err(|error| broken(&self.fault, &error))?;
        Ok(field.map(|field| Part {
            field,
            fault: &self.fault,
        }))
    }
}

impl Part<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// What the file is called, if it is one.
    pub fn filename(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// What it is said to be.
    pub fn content_type(&self) -> Option<&str> {
        self.field.content_type()
    }

    /// More of it; nothing at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = self.field.chunk().await;
        piece.map_err(|error| broken(self.fault, &error))
    }

    /// A text of at most `most` bytes; nothing when it is longer or no text.
    pub async fn text(&mut self, most: usize) -> Result<Option<String>, Error> {
        let mut text = Vec::new();
        while let Some(piece) = self.piece().await? {
            if text.len() + piece.len() > most {
                return Ok(None);
            }
            text.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(text).ok())
    }
}

fn broken(fault: &Fault, error: &MultipartError) -> Error {
    let known = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
    known.unwrap_or_else(|| malformed(error.body_text()))
}

#[cfg(test)]
mod tests {

    use tollgate_types::ErrorCode;

    use super::*;

    const BODY: &str = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
                        --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\
                        Content-Type: application/jsonl\r\n\r\n{}\n\r\n--x--\r\n";

    /// The body in pieces of so many bytes.
    fn upload(size: usize, body: &'static str) -> Upload<1024> {
        let pieces = body
            .as_bytes()
            .chunks(size)
            .map(|piece| Ok::<_, Error>(Bytes::from_static(piece)));
        let body = Body::from_stream(stream::iter(pieces.collect::<Vec<_>>()));
        let form = Request::builder()
            .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
            .body(body);
        let form = futures_util::FutureExt::now_or_never(Multipart::from_request(form.unwrap(), &()));
        Upload {
            form: form.unwrap().unwrap(),
            fault: Fault::default(),
            parts: 0,
            length: None,
        }
    }

    #[tokio::test]
    async fn parts_come_whole_however_they_are_cut() {
        for size in [1, 2, 7, 64, 1_000] {
            let mut form = upload(size, BODY);
            let mut part = form.next().await.unwrap().unwrap();
            assert_eq!((part.name(), part.filename()), ("purpose", None));
            assert_eq!(part.text(5).await.unwrap().as_deref(), Some("batch"));
            drop(part);
            let mut part = form.next().await.unwrap().unwrap();
            assert_eq!(part.filename(), Some("a.jsonl"));
            assert_eq!(part.content_type(), Some("application/jsonl"));
            assert_eq!(part.text(3).await.unwrap().as_deref(), Some("{}\n"));
            drop(part);
            assert!(form.next().await.unwrap().is_none());
        }
        let mut form = upload(9, BODY);
        let mut part = form.next().await.unwrap().unwrap();
        assert_eq!(part.text(4).await.unwrap(), None, "too long");
    }

    #[tokio::test]
    async fn what_is_broken_off_is_refused() {
        for end in [BODY.len() - 6, 100, 20] {
            let mut form = upload(9, &BODY[..end]);
            let read = async {
                while let Some(mut part) = form.next().await? {
                    while part.piece().await?.is_some() {}
                }
                Ok::<_, Error>(())
            };
            assert_eq!(read.await.unwrap_err().code, ErrorCode::InvalidParameter, "{end}");
        }
    }
}
