//! Requests, valid or malformed.

use serde_json::Value;

/// One request. The client adds only `host` and the length of the body.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    None,
    Counted(Vec<u8>),
    Chunked(Vec<u8>, usize),
}

impl Request {
    /// Creates a request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: vec![("host".to_owned(), b"gateway".to_vec())],
            body: Body::None,
        }
    }

    /// Creates a `GET` without headers other than `host`.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Creates a `POST` of these bytes, with `content-length` and without `content-type`.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: Body::Counted(body.into()),
            ..Self::new("POST", target)
        }
    }

    /// Creates a `POST` of a JSON body.
    pub fn json(target: &str, body: &Value) -> Self {
        Self::post(target, body.to_string()).header("content-type", "application/json")
    }

    /// Replaces the method. The body stays unchanged.
    #[must_use]
    pub fn with_method(self, method: &str) -> Self {
        Self {
            method: method.to_owned(),
            ..self
        }
    }

    /// Adds `authorization: Bearer KEY`.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    /// Adds one header. Existing headers of the same name stay.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Removes all headers of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    /// Sends the body in chunks of this many bytes, without `content-length`.
    #[must_use]
    pub fn chunked(mut self, bytes: usize) -> Self {
        if let Body::Counted(body) = self.body {
            self.body = Body::Chunked(body, bytes);
        }
        self
    }

    /// Whether the method is `HEAD`, whose response has no body.
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Returns the head in wire format, with its blank line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        match &self.body {
            Body::None => {}
            Body::Counted(body) => {
                bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes())
            }
            Body::Chunked(..) => bytes.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// Returns the whole request in wire format.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        match &self.body {
            Body::None => {}
            Body::Counted(body) => bytes.extend_from_slice(body),
            Body::Chunked(body, size) => {
                for chunk in body.chunks(*size) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }
}
