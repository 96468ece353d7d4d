//! Values of an expected type, of a tree: as those of a cursor, with the same words.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::Node;
use crate::error::{DecodeError, Flaw};
use crate::json::path::Path;
use crate::json::reader::Kind;
use crate::json::typed::Listed;

impl<'a> Node<'a> {
    /// The members of an object.
    pub(crate) fn object_at(&self, path: &Path<'_>) -> Result<&[(Cow<'a, str>, Node<'a>)], Flaw> {
        match self {
            Node::Object(members) => Ok(members),
            _ => Err(self.is_not(Kind::Object, path)),
        }
    }

    /// The elements of an array.
    pub(crate) fn list_at(&self, path: &Path<'_>) -> Result<&[Node<'a>], Flaw> {
        match self {
            Node::List(items) => Ok(items),
            _ => Err(self.is_not(Kind::Array, path)),
        }
    }

    /// A string.
    pub(crate) fn text_at(&self, path: &Path<'_>) -> Result<&str, Flaw> {
        self.as_text().ok_or_else(|| self.is_not(Kind::String, path))
    }

    /// A string with anything but white space.
    pub(crate) fn filled_at(&self, path: &Path<'_>) -> Result<&str, Flaw> {
        let text = self.text_at(path)?;
        match text.trim().is_empty() {
            true => Err(path.invalid("must not be empty")),
            false => Ok(text),
        }
    }

    /// A boolean.
    pub(crate) fn flag_at(&self, path: &Path<'_>) -> Result<bool, Flaw> {
        match self {
            Node::Bool(value) => Ok(*value),
            _ => Err(self.is_not(Kind::Bool, path)),
        }
    }

    /// An integer within bounds.
    pub(crate) fn whole_at(&self, bounds: RangeInclusive<u64>, path: &Path<'_>) -> Result<u64, Flaw> {
        let Node::Number(token) = self else {
            return Err(self.is_not(Kind::Number, path));
        };
        let value = token.parse().ok().filter(|value| bounds.contains(value));
        let (least, most) = (bounds.start(), bounds.end());
        value.ok_or_else(|| path.invalid(format_args!("must be an integer from {least} to {most}")))
    }

    /// One of the words of a list.
    pub(crate) fn word_at(&self, words: &[&'static str], path: &Path<'_>) -> Result<&'static str, Flaw> {
        let known = |text: &str| words.iter().find(|word| **word == text).copied();
        let listed = || path.invalid(format_args!("must be one of {}", Listed(words)));
        self.as_text().and_then(known).ok_or_else(listed)
    }

    /// The value of a key that is required.
    pub(crate) fn need(&self, key: &str, path: &Path<'_>) -> Result<&Node<'a>, Flaw> {
        self.get(key).ok_or_else(|| path.missing(key))
    }

    /// Refuses what is no object, keys that `known` does not have, and those that stand twice.
    pub(crate) fn closed_at(&self, known: &[&[&str]], path: &Path<'_>) -> Result<(), Flaw> {
        let members = self.object_at(path)?;
        for (place, (key, _)) in members.iter().enumerate() {
            if !known.iter().any(|names| names.contains(&&**key)) {
                return Err(Box::new(DecodeError::unknown(path.key(key).to_string())));
            }
            // What comes before is known and stands once, so that it is short.
            if members.iter().take(place).any(|(earlier, _)| earlier == key) {
                return Err(path.duplicate(key));
            }
        }
        Ok(())
    }

    #[cold]
    fn is_not(&self, expected: Kind, path: &Path<'_>) -> Flaw {
        path.invalid(format_args!(
            "must be {}, not {}",
            expected.name(),
            self.kind().name()
        ))
    }
}
