//! JSON tree, for formats in which a member can only be interpreted after its whole object has been
//! read.

mod typed;

use std::borrow::Cow;

use serde_json::Value;

use super::reader::{Kind, Reader};
use super::write::write_string;
use crate::error::BoxedError;

/// JSON value with verbatim numbers and all duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Parses the whole body, which may have up to `max_nodes` values.
    pub(crate) fn of_body(body: &'a [u8], max_nodes: u32) -> Result<Self, BoxedError> {
        let mut reader = Reader::new(body, max_nodes)?;
        let node = Node::read(&mut reader)?;
        reader.finish()?;
        Ok(node)
    }

    /// Reads the value under the cursor. The reader limits the depth and the number of values.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, BoxedError> {
        Ok(match reader.kind()? {
            Kind::Null => {
                reader.null()?;
                Node::Null
            }
            Kind::Bool => Node::Bool(reader.boolean()?),
            Kind::Number => Node::Number(reader.number()?.token),
            Kind::String => Node::Text(reader.string()?.decoded()),
            Kind::Array => {
                let mut items = Vec::new();
                reader.begin_array()?;
                while reader.item()? {
                    items.push(Node::read(reader)?);
                }
                Node::List(items)
            }
            Kind::Object => {
                let mut members = Vec::new();
                reader.begin_object()?;
                while let Some(key) = reader.key()? {
                    members.push((key.name, Node::read(reader)?));
                }
                Node::Object(members)
            }
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Node::Null => Kind::Null,
            Node::Bool(_) => Kind::Bool,
            Node::Number(_) => Kind::Number,
            Node::Text(_) => Kind::String,
            Node::List(_) => Kind::Array,
            Node::Object(_) => Kind::Object,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a key, unless it is null; for a duplicate key, the first value.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        let Node::Object(members) = self else {
            return None;
        };
        let (_, value) = members.iter().find(|(name, _)| *name == key)?;
        (*value != Node::Null).then_some(value)
    }

    /// Returns the nearest double-precision number, if the value is a number.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Node::Number(token) => token.parse().ok(),
            _ => None,
        }
    }

    /// Converts to a `serde_json` value. Of the values of a duplicate key, the last one is used.
    /// Numbers are parsed, so their verbatim text is lost.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(token) => serde_json::from_str(token).unwrap_or_default(),
            Node::Text(text) => Value::String(text.clone().into_owned()),
            Node::List(items) => items.iter().map(Node::to_value).collect(),
            Node::Object(members) => {
                let member =
                    |(key, value): &(Cow<'_, str>, Node<'_>)| (key.clone().into_owned(), value.to_value());
                Value::Object(members.iter().map(member).collect())
            }
        }
    }

    /// Returns the value as JSON without white space. Numbers are verbatim.
    pub(crate) fn compact(&self) -> String {
        let mut out = Vec::new();
        self.write_compact(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn write_compact(&self, out: &mut Vec<u8>) {
        match self {
            Node::Null => out.extend_from_slice(b"null"),
            Node::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Node::Number(token) => out.extend_from_slice(token.as_bytes()),
            Node::Text(text) => write_string(out, text),
            Node::List(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    comma(out, place);
                    item.write_compact(out);
                }
                out.push(b']');
            }
            Node::Object(members) => {
                out.push(b'{');
                for (place, (key, value)) in members.iter().enumerate() {
                    comma(out, place);
                    write_string(out, key);
                    out.push(b':');
                    value.write_compact(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Returns the value as indented JSON, independent of the white space and escapes of the
    /// source.
    pub(crate) fn pretty(&self) -> String {
        let mut out = Vec::new();
        self.write_pretty(&mut out, 1);
        String::from_utf8(out).unwrap_or_default()
    }

    fn write_pretty(&self, out: &mut Vec<u8>, depth: usize) {
        match self {
            Node::Null => out.extend_from_slice(b"null"),
            Node::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Node::Number(token) => out.extend_from_slice(token.as_bytes()),
            Node::Text(text) => write_string(out, text),
            Node::List(items) if items.is_empty() => out.extend_from_slice(b"[]"),
            Node::Object(members) if members.is_empty() => out.extend_from_slice(b"{}"),
            Node::List(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    new_line(out, place, depth);
                    item.write_pretty(out, depth + 1);
                }
                new_line(out, 0, depth - 1);
                out.push(b']');
            }
            Node::Object(members) => {
                out.push(b'{');
                for (place, (key, value)) in members.iter().enumerate() {
                    new_line(out, place, depth);
                    write_string(out, key);
                    out.extend_from_slice(b": ");
                    value.write_pretty(out, depth + 1);
                }
                new_line(out, 0, depth - 1);
                out.push(b'}');
            }
        }
    }
}

/// Writes a comma unless `place` is 0.
fn comma(out: &mut Vec<u8>, place: usize) {
    if place > 0 {
        out.push(b',');
    }
}

/// Writes a line break and the indentation of `depth`, preceded by a comma unless `place` is 0.
fn new_line(out: &mut Vec<u8>, place: usize, depth: usize) {
    if place > 0 {
        out.push(b',');
    }
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', 2 * depth));
}
