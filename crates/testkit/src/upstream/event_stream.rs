//! Frames of `application/vnd.amazon.eventstream`, the format of Bedrock's streams.

use serde_json::Value;

/// The media type of such a stream.
pub const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// Returns a frame with these headers, whose values are strings, and this payload.
pub fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(name.len() as u8);
        written.extend_from_slice(name.as_bytes());
        written.push(7);
        written.extend_from_slice(&(value.len() as u16).to_be_bytes());
        written.extend_from_slice(value.as_bytes());
    }
    let total = (16 + written.len() + payload.len()) as u32;
    let mut out = [total.to_be_bytes(), (written.len() as u32).to_be_bytes()].concat();
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&written);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

/// Returns a frame with the headers of an event and a JSON payload.
pub fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [
        (":event-type", name),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    frame(&headers, payload.to_string().as_bytes())
}

/// Returns the frame of an exception, which ends the stream.
pub fn exception(name: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", name),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    frame(&headers, br#"{"message":"The server had an error"}"#)
}
