//! Writing of JSON objects without a tree.

use std::fmt::Display;
use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json::write_string;

/// Open JSON object at the end of a buffer. Members are written in the order of the calls.
pub(super) struct Object<'w> {
    out: &'w mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    /// Appends an object whose members `fill` writes.
    pub(super) fn write(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        fill(&mut Object { out, is_empty: true });
        out.push(b'}');
    }

    /// Returns the text of an object whose members `fill` writes.
    pub(super) fn to_text(capacity: usize, fill: impl FnOnce(&mut Object<'_>)) -> String {
        let mut out = Vec::with_capacity(capacity);
        Object::write(&mut out, fill);
        String::from_utf8(out).unwrap_or_default()
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_string(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        write_string(self.key(key), text);
    }

    /// Writes a text, or null if there is none.
    pub(super) fn nullable(&mut self, key: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(key, text),
            None => self.raw(key, "null"),
        }
    }

    /// Writes a text, or no member if there is none.
    pub(super) fn optional(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// Writes a number, whose display form must be JSON.
    pub(super) fn number(&mut self, key: &str, number: impl Display) {
        let out = self.key(key);
        // Writing to a vector cannot fail.
        let _ = write!(out, "{number}");
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.raw(key, if flag { "true" } else { "false" });
    }

    /// Writes a value that is already JSON text.
    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    /// Writes bytes as a base64 text.
    pub(super) fn base64(&mut self, key: &str, bytes: &[u8]) {
        let out = self.key(key);
        out.push(b'"');
        let start = out.len();
        out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        let space = out.get_mut(start..).unwrap_or_default();
        let length = STANDARD.encode_slice(bytes, space).unwrap_or_default();
        out.truncate(start + length);
        out.push(b'"');
    }

    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.key(key), fill);
    }

    /// Writes an array of objects.
    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Object<'_>, T),
    ) {
        self.list(key, items, |out, item| {
            Object::write(out, |object| fill(object, item))
        });
    }

    /// Writes an array of texts.
    pub(super) fn texts<'t>(&mut self, key: &str, texts: impl IntoIterator<Item = &'t str>) {
        self.list(key, texts, write_string);
    }

    fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) {
        let out = self.key(key);
        out.push(b'[');
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            write(out, item);
        }
        out.push(b']');
    }
}
