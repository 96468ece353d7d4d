//! Reads requests from the socket, and records them.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::media::{FormPart, parts};

const MAX_HEADERS: usize = 128;
const LONGEST_HEAD: usize = 256 * 1024;
const LONGEST_BODY: usize = 128 * 1024 * 1024;

/// One request that the fake upstream received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Number of the request, from 1, in the order in which request heads arrived.
    pub sequence: u64,
    /// Number of the connection, from 1.
    pub connection: u64,
    /// The method, as sent.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// All headers in their order, with names in lower case. Bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The decoded body. Empty if the reply did not wait for the body.
    pub body: Bytes,
}

impl ReceivedRequest {
    /// Returns the first header with this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; `None` if it is invalid.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns the parts of the body as a form; `None` if the form is malformed.
    pub fn form(&self) -> Option<Vec<FormPart>> {
        parts(self.header("content-type")?, &self.body)
    }

    /// Returns the path without the query.
    pub(super) fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// Framing of a request body.
#[derive(Debug, Clone, Copy)]
enum BodyLength {
    Known(usize),
    Chunked,
}

/// A request head, and the framing of its body.
pub(super) struct Head {
    pub request: ReceivedRequest,
    pub keep_alive: bool,
    length: BodyLength,
    expects_continue: bool,
}

/// Reads a request head; `None` at the end of the connection.
///
/// # Errors
/// The connection broke, or the bytes are no HTTP/1 request.
pub(super) async fn read_head(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Head>> {
    loop {
        if let Some(head) = parse_head(buffer)? {
            return Ok(Some(head));
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(broken("request head too long"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(broken("request head cut"))
            };
        }
    }
}

/// Reads the body of the request.
///
/// # Errors
/// The connection broke, or the body breaks its framing.
pub(super) async fn read_body(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    head: &Head,
) -> io::Result<Bytes> {
    if head.expects_continue {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    match head.length {
        BodyLength::Known(length) => {
            fill(stream, buffer, length).await?;
            Ok(buffer.split_to(length).freeze())
        }
        BodyLength::Chunked => read_chunks(stream, buffer).await,
    }
}

fn parse_head(buffer: &mut BytesMut) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let size = match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(broken(&error.to_string())),
    };
    let request = ReceivedRequest {
        sequence: 0,
        connection: 0,
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers: parsed
            .headers
            .iter()
            .map(|header| {
                let value = String::from_utf8_lossy(header.value).into_owned();
                (header.name.to_ascii_lowercase(), value)
            })
            .collect(),
        body: Bytes::new(),
    };
    let says = |name: &str, word: &str| {
        request
            .header(name)
            .is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    let length = if says("transfer-encoding", "chunked") {
        BodyLength::Chunked
    } else {
        let stated = request.header("content-length").unwrap_or("0");
        let length = stated
            .parse()
            .map_err(|_| broken("content-length is no number"))?;
        if length > LONGEST_BODY {
            return Err(broken("request body too long"));
        }
        BodyLength::Known(length)
    };
    let keep_alive = parsed.version == Some(1) && !says("connection", "close");
    let expects_continue = says("expect", "100-continue");
    buffer.advance(size);
    Ok(Some(Head {
        request,
        keep_alive,
        length,
        expects_continue,
    }))
}

async fn fill(stream: &mut TcpStream, buffer: &mut BytesMut, length: usize) -> io::Result<()> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(broken("request body cut"));
        }
    }
    Ok(())
}

/// Decodes a chunked body; trailers are read and discarded.
async fn read_chunks(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let line = read_line(stream, buffer).await?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16).map_err(|_| broken("chunk size is no number"))?;
        if size == 0 {
            while !read_line(stream, buffer).await?.is_empty() {}
            return Ok(body.freeze());
        }
        if body.len() + size > LONGEST_BODY {
            return Err(broken("request body too long"));
        }
        fill(stream, buffer, size + 2).await?;
        body.extend_from_slice(&buffer.split_to(size));
        if &buffer.split_to(2)[..] != b"\r\n" {
            return Err(broken("chunk without line end"));
        }
    }
}

async fn read_line(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<String> {
    loop {
        if let Some(end) = buffer.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.advance(end + 2);
            return Ok(line);
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(broken("line too long"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(broken("request body cut"));
        }
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
