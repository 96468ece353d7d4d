//! Header values of one response, formatted one after another into one buffer.

use std::fmt::{Display, Write};

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Typical total length of the values of a response, in bytes.
const INITIAL_CAPACITY: usize = 96;

/// Shared buffer of the header values of one response.
pub(crate) struct HeaderValues(BytesMut);

impl Default for HeaderValues {
    fn default() -> Self {
        Self(BytesMut::with_capacity(INITIAL_CAPACITY))
    }
}

impl HeaderValues {
    /// Inserts a header with this text as value. Skips it if the text contains invalid characters.
    pub(crate) fn insert(&mut self, headers: &mut HeaderMap, name: &HeaderName, text: impl Display) {
        // Writing to memory does not fail.
        let _ = write!(self.0, "{text}");
        if let Ok(value) = HeaderValue::from_maybe_shared(self.0.split().freeze()) {
            headers.insert(name.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_independent() {
        let (mut headers, mut values) = (HeaderMap::new(), HeaderValues::default());
        let [first, second, third] = ["x-first", "x-second", "x-third"].map(HeaderName::from_static);
        values.insert(&mut headers, &first, u64::MAX);
        values.insert(&mut headers, &second, "line\nbreak");
        values.insert(&mut headers, &third, "a".repeat(INITIAL_CAPACITY));
        assert_eq!(headers[&first], u64::MAX.to_string());
        assert!(!headers.contains_key(&second));
        assert_eq!(headers[&third], "a".repeat(INITIAL_CAPACITY));
    }
}
