//! Forms with files in them (`multipart/form-data`, RFC 7578).

use aws_lc_rs::rand;
use bytes::{BufMut, Bytes, BytesMut};
use tollgate_upstream::{Source, UpstreamError};

use crate::http::RequestBody;

/// A form. Files stay the bytes that they are and are not copied.
#[derive(Debug)]
pub(crate) struct Form {
    /// Nobody can know it before, so that no value has it in it.
    boundary: String,
    pieces: Vec<Bytes>,
}

impl Form {
    /// An empty one.
    pub(crate) fn new() -> Result<Self, UpstreamError> {
        let mut random = [0; 16];
        rand::fill(&mut random).map_err(|_| UpstreamError::connect("no random bytes for a boundary"))?;
        Ok(Self {
            boundary: format!("tollgate-{:032x}", u128::from_be_bytes(random)),
            pieces: Vec::new(),
        })
    }

    /// A field. Names are the adapters' own and need no quotes.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        let boundary = &self.boundary;
        let part =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self.pieces.push(part.into());
    }

    /// A file.
    pub(crate) fn file(&mut self, name: &str, file_name: &str, source: &Source) {
        self.file_of(name, file_name, &source.mime_type, [source.bytes.clone()]);
    }

    /// A file of these pieces.
    pub(crate) fn file_of(
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
        // A media type is a word; whatever could end the line is left out.
        let is_word = |byte: &u8| byte.is_ascii_graphic();
        head.extend(mime_type.bytes().filter(is_word));
        head.put_slice(b"\r\n\r\n");
        self.pieces.push(head.freeze());
        self.pieces.extend(content);
        self.pieces.push(Bytes::from_static(b"\r\n"));
    }

    /// What a request says it has.
    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The whole form.
    pub(crate) fn into_body(mut self) -> RequestBody {
        self.pieces.push(format!("--{}--\r\n", self.boundary).into());
        let full = self.pieces.into_iter().filter(|piece| !piece.is_empty());
        RequestBody::from(full.collect::<Vec<Bytes>>())
    }
}
