//! Values of headers that are written for one answer, one after another into one piece of memory.

use std::fmt::{Display, Write};

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};

/// What the values of an answer take together, most often.
const USUAL_BYTES: usize = 96;

/// The memory of the values.
pub(crate) struct Values(BytesMut);

impl Default for Values {
    fn default() -> Self {
        Self(BytesMut::with_capacity(USUAL_BYTES))
    }
}

impl Values {
    /// Inserts a header whose value is this text. One with characters that no header has is left out.
    pub(crate) fn insert(&mut self, headers: &mut HeaderMap, name: &HeaderName, text: impl Display) {
        // Memory takes everything that is written.
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
    fn values_stand_for_themselves() {
        let (mut headers, mut values) = (HeaderMap::new(), Values::default());
        let [first, second, third] = ["x-first", "x-second", "x-third"].map(HeaderName::from_static);
        values.insert(&mut headers, &first, u64::MAX);
        values.insert(&mut headers, &second, "line\nbreak");
        values.insert(&mut headers, &third, "a".repeat(USUAL_BYTES));
        assert_eq!(headers[&first], u64::MAX.to_string());
        assert!(!headers.contains_key(&second));
        assert_eq!(headers[&third], "a".repeat(USUAL_BYTES));
    }
}
