//! Complete responses.

use serde_json::Value;

use super::answer::Event;

/// Status and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The HTTP status code.
    pub status: u16,
    /// All headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// Returns the value of a header; `None` without one.
    ///
    /// # Panics
    /// If the header is present more than once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} is present twice");
        first
    }
}

/// A response that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The response head: status and headers.
    pub head: Head,
    /// The body chunk by chunk; one item if the body is not chunked.
    pub chunks: Vec<Vec<u8>>,
    /// Whether the body is complete by its framing. If not, the connection broke.
    pub whole: bool,
}

/// The error object in the body of a failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    /// The error code of the contract.
    pub code: String,
    /// The error type, which groups error codes.
    pub kind: String,
    /// The request parameter that caused the error.
    pub param: Option<String>,
    /// The human-readable message.
    pub message: String,
}

impl Response {
    /// Returns the value of a header; `None` without one. Panics if the header is present more than
    /// once.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Returns the joined chunks of the body.
    pub fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    /// Returns the body as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body()).into_owned()
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the value of `x-request-id`.
    ///
    /// # Panics
    /// If the header is missing.
    pub fn request_id(&self) -> &str {
        self.header("x-request-id")
            .expect("every response carries x-request-id")
    }

    /// Parses the error body, which has exactly the members that the contract names.
    ///
    /// # Panics
    /// If the body has other members, or lacks one.
    pub fn error(&self) -> ErrorObject {
        ErrorObject::of(&self.json())
    }

    /// Parses the error body of the messages API, which also has the members of that format.
    ///
    /// # Panics
    /// If the body has other members, or lacks one.
    pub fn message_error(&self) -> ErrorObject {
        let body = self.json();
        assert_eq!(body["type"], "error", "{body}");
        assert_eq!(body["request_id"].as_str(), Some(self.request_id()), "{body}");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(3), "{body}");
        ErrorObject::of(&serde_json::json!({"error": body["error"]}))
    }

    /// Parses the events of the body, including comments.
    ///
    /// # Panics
    /// If the body is not a series of events.
    pub fn events(&self) -> Vec<Event> {
        let text = self.text();
        let blocks = text.split_inclusive("\n\n").map(str::as_bytes);
        blocks.map(Event::parse).collect()
    }
}

impl ErrorObject {
    /// Parses the only member of an error body.
    ///
    /// # Panics
    /// If the error has other members than the contract's four, or one has another type.
    pub fn of(body: &Value) -> Self {
        let members = |value: &Value| -> Vec<String> {
            let object = value
                .as_object()
                .unwrap_or_else(|| panic!("{body}: not an error body"));
            let mut names: Vec<String> = object.keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(members(body), ["error"], "{body}");
        let error = &body["error"];
        assert_eq!(members(error), ["code", "message", "param", "type"], "{body}");
        let text = |name: &str| {
            error[name]
                .as_str()
                .unwrap_or_else(|| panic!("{name} in {body}"))
                .to_owned()
        };
        assert!(!text("message").is_empty(), "{body}");
        Self {
            code: text("code"),
            kind: text("type"),
            param: (!error["param"].is_null()).then(|| text("param")),
            message: text("message"),
        }
    }
}
