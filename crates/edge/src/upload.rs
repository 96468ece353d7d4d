//! Forms whose files are too large for memory. Parts are read one by one, in chunks.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tollgate_types::Error;

use crate::body::{self, BodyChunks};
use crate::context::context_of;
use crate::error::ApiError;
use crate::form::{MAX_FIELDS, boundary, malformed, not_multipart, part_name, too_many_fields};

/// Error of the underlying body, if it caused a parser error.
type Fault = Arc<Mutex<Option<Error>>>;

/// A form of at most `LIMIT` bytes.
pub struct Upload<const LIMIT: usize> {
    form: Multipart,
    fault: Fault,
    parts: usize,
    /// Length of the whole body in bytes, from `content-length`.
    pub length: Option<u64>,
}

/// A part of a form, whose content is read in chunks.
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
            return Err(not_multipart().into());
        }
        body::check_length(&parts.headers, LIMIT)?;
        let grace_period = context_of(&parts)?.body_grace_period;
        let header = |name| parts.headers.get(name)?.to_str().ok();
        let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let fault = Fault::default();
        let chunks = Some((BodyChunks::new(body, LIMIT, grace_period), fault.clone()));
        let chunks = stream::unfold(chunks, async |chunks| {
            let (mut chunks, fault) = chunks?;
            match chunks.next().await {
                Ok(chunk) => Some((Ok(chunk?), Some((chunks, fault)))),
                Err(error) => {
                    let text = error.message.clone();
                    *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Some((Err(std::io::Error::other(text)), None))
                }
            }
        });
        let mut form = Request::new(Body::from_stream(chunks));
        if let Some(content_type) = parts.headers.get(CONTENT_TYPE) {
            form.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        }
        // The chunks are already limited in size.
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
    /// Returns the next part, or `None` at the end of the form. Unread data of the previous part is
    /// skipped.
    pub async fn next(&mut self) -> Result<Option<Part<'_>>, Error> {
        let field = self.form.next_field().await;
        let field = field.map_err(|error| broken(&self.fault, &error))?;
        if let Some(field) = &field {
            if self.parts == MAX_FIELDS {
                return Err(too_many_fields());
            }
            self.parts += 1;
            part_name(field.name())?;
        }
        Ok(field.map(|field| Part {
            field,
            fault: &self.fault,
        }))
    }
}

impl Part<'_> {
    /// Returns the field name of the part.
    pub fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// Returns the file name, if the part is a file.
    pub fn filename(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// Returns the declared media type.
    pub fn content_type(&self) -> Option<&str> {
        self.field.content_type()
    }

    /// Returns the next chunk of the part, or `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let chunk = self.field.chunk().await;
        chunk.map_err(|error| broken(self.fault, &error))
    }

    /// Reads a text of at most `max_bytes` bytes; `None` if it is longer or not UTF-8.
    pub async fn text(&mut self, max_bytes: usize) -> Result<Option<String>, Error> {
        let mut text = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if text.len() + chunk.len() > max_bytes {
                return Ok(None);
            }
            text.extend_from_slice(&chunk);
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

    /// Splits the body into chunks of `size` bytes.
    fn upload(size: usize, body: &'static str) -> Upload<1024> {
        let chunks = body
            .as_bytes()
            .chunks(size)
            .map(|chunk| Ok::<_, Error>(Bytes::from_static(chunk)));
        let body = Body::from_stream(stream::iter(chunks.collect::<Vec<_>>()));
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
    async fn parts_are_independent_of_chunk_sizes() {
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
    async fn truncated_forms_are_refused() {
        for end in [BODY.len() - 6, 100, 20] {
            let mut form = upload(9, &BODY[..end]);
            let read = async {
                while let Some(mut part) = form.next().await? {
                    while part.chunk().await?.is_some() {}
                }
                Ok::<_, Error>(())
            };
            assert_eq!(read.await.unwrap_err().code, ErrorCode::InvalidParameter, "{end}");
        }
        let unnamed = "--x\r\nContent-Disposition: form-data\r\n\r\nm\r\n--x--\r\n";
        let error = upload(9, unnamed).next().await.map(|_| ()).unwrap_err();
        let nameless = "A part of the form has no name. Add 'name' to its Content-Disposition header.";
        assert_eq!(error.message, nameless);
        let field = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nm\r\n";
        for (count, is_accepted) in [(MAX_FIELDS, true), (MAX_FIELDS + 1, false)] {
            let mut form = upload(64, String::leak(field.repeat(count) + "--x--\r\n"));
            let mut result = Ok(true);
            while let Ok(true) = result {
                result = form.next().await.map(|part| part.is_some());
            }
            match is_accepted {
                true => assert!(!result.unwrap()),
                false => assert_eq!(result.unwrap_err().message, "The form has more than 64 fields."),
            }
        }
    }
}
