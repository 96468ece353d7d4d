//! Multipart forms with files (`multipart/form-data`, RFC 7578).

use aws_lc_rs::rand;
use bytes::{BufMut, Bytes, BytesMut};
use tollgate_upstream::{Source, UpstreamError};

use crate::http::RequestBody;

/// A multipart form. Files are not copied.
#[derive(Debug)]
pub(crate) struct Form {
    /// Random boundary between the parts. The probability that a value contains the boundary is
    /// negligible.
    boundary: String,
    chunks: Vec<Bytes>,
}

impl Form {
    /// Creates an empty form with a random boundary.
    pub(crate) fn new() -> Result<Self, UpstreamError> {
        let mut random = [0; 16];
        rand::fill(&mut random)
            .map_err(|_| UpstreamError::connect("cannot generate a multipart boundary"))?;
        Ok(Self {
            boundary: format!("tollgate-{:032x}", u128::from_be_bytes(random)),
            chunks: Vec::new(),
        })
    }

    /// Adds a field. `name` is not escaped, so it must be a constant.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        let boundary = &self.boundary;
        let part =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self.chunks.push(part.into());
    }

    /// Adds a file with the bytes and the media type of `source`. `name` and `file_name` are not
    /// escaped.
    pub(crate) fn file(&mut self, name: &str, file_name: &str, source: &Source) {
        self.file_chunks(name, file_name, &source.mime_type, [source.bytes.clone()]);
    }

    /// Adds a file that consists of these chunks. `name` and `file_name` are not escaped.
    pub(crate) fn file_chunks(
        &mut self,
        name: &str,
        file_name: &str,
        mime_type: &str,
        content: impl IntoIterator<Item = Bytes>,
    ) {
        let boundary = &self.boundary;
        let mut head = BytesMut::new();
        let disposition = format!("form-data; name=\"{name}\"; filename=\"{file_name}\"");
        head.put_slice(
            format!("--{boundary}\r\ncontent-disposition: {disposition}\r\ncontent-type: ").as_bytes(),
        );
        // Drops white space, control characters and non-ASCII bytes. A line break would end the
        // header line.
        let is_word = |byte: &u8| byte.is_ascii_graphic();
        head.extend(mime_type.bytes().filter(is_word));
        head.put_slice(b"\r\n\r\n");
        self.chunks.push(head.freeze());
        self.chunks.extend(content);
        self.chunks.push(Bytes::from_static(b"\r\n"));
    }

    /// Returns the value of the `content-type` header.
    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// Closes the form and returns its body.
    pub(crate) fn into_body(mut self) -> RequestBody {
        self.chunks.push(format!("--{}--\r\n", self.boundary).into());
        let full = self.chunks.into_iter().filter(|chunk| !chunk.is_empty());
        RequestBody::from(full.collect::<Vec<Bytes>>())
    }
}
