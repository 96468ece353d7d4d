//! Whole responses.

use serde_json::Value;

use super::answer::Event;

/// Status and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// All headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The value of a header; `None` without one.
    ///
    /// # Panics
    /// When it is there more than once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        first
    }
}

/// A response of which nothing more comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Status and headers.
    pub head: Head,
    /// The body in the pieces of its framing: chunk by chunk, or all at once.
    pub chunks: Vec<Vec<u8>>,
    /// Whether it ended as its framing says; otherwise the connection broke.
    pub whole: bool,
}

/// The body of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    /// The failure.
    pub code: String,
    /// Its family.
    pub kind: String,
    /// The parameter at fault.
    pub param: Option<String>,
    /// For people.
    pub message: String,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body.
    pub fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body()).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The value of `x-request-id`.
    ///
    /// # Panics
    /// When it is not there.
    pub fn request_id(&self) -> &str {
        self.header("x-request-id")
            .expect("every response carries x-request-id")
    }

    /// The body of a failure, which has exactly the members that the contract names.
    ///
    /// # Panics
    /// When it has others, or lacks one.
    pub fn error(&self) -> ErrorObject {
        ErrorObject::of(&self.json())
    }

    /// The body of a failure on the paths of messages, which has that format's members besides.
    ///
    /// # Panics
    /// When it has others, or lacks one.
    pub fn message_error(&self) -> ErrorObject {
        let body = self.json();
        assert_eq!(body["type"], "error", "{body}");
        assert_eq!(body["request_id"].as_str(), Some(self.request_id()), "{body}");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(3), "{body}");
        ErrorObject::of(&serde_json::json!({"error": body["error"]}))
    }

    /// The events of the body, comments included.
    ///
    /// # Panics
    /// When the body is not a series of events.
    pub fn events(&self) -> Vec<Event> {
        let text = self.text();
        let blocks = text.split_inclusive("\n\n").map(str::as_bytes);
        blocks.map(Event::parse).collect()
    }
}

impl ErrorObject {
    /// The one member of a failure's body.
    ///
    /// # Panics
    /// When it has other members than the contract's four, or one of another type.
    pub fn of(body: &Value) -> Self {
        let members = |value: &Value| -> Vec<String> {
            let object = value
                .as_object()
                .unwrap_or_else(|| panic!("{body} is no error body"));
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
