//! Typed access to the values of a tree, with the same error messages as the cursor.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::Node;
use crate::error::{BoxedError, DecodeError};
use crate::json::path::Path;
use crate::json::reader::Kind;
use crate::json::typed::Listed;

impl<'a> Node<'a> {
    /// Returns the members of an object; refuses other types.
    pub(crate) fn object_at(&self, path: &Path<'_>) -> Result<&[(Cow<'a, str>, Node<'a>)], BoxedError> {
        match self {
            Node::Object(members) => Ok(members),
            _ => Err(self.type_error(Kind::Object, path)),
        }
    }

    /// Returns the elements of an array; refuses other types.
    pub(crate) fn list_at(&self, path: &Path<'_>) -> Result<&[Node<'a>], BoxedError> {
        match self {
            Node::List(items) => Ok(items),
            _ => Err(self.type_error(Kind::Array, path)),
        }
    }

    /// Returns the text; refuses other types.
    pub(crate) fn text_at(&self, path: &Path<'_>) -> Result<&str, BoxedError> {
        self.as_text().ok_or_else(|| self.type_error(Kind::String, path))
    }

    /// Returns the text; refuses an empty text and white space alone.
    pub(crate) fn non_empty_at(&self, path: &Path<'_>) -> Result<&str, BoxedError> {
        let text = self.text_at(path)?;
        match text.trim().is_empty() {
            true => Err(path.invalid("must not be empty")),
            false => Ok(text),
        }
    }

    /// Returns the boolean; refuses other types.
    pub(crate) fn flag_at(&self, path: &Path<'_>) -> Result<bool, BoxedError> {
        match self {
            Node::Bool(value) => Ok(*value),
            _ => Err(self.type_error(Kind::Bool, path)),
        }
    }

    /// Returns the integer; refuses other types and values outside `bounds`.
    pub(crate) fn integer_at(&self, bounds: RangeInclusive<u64>, path: &Path<'_>) -> Result<u64, BoxedError> {
        let Node::Number(token) = self else {
            return Err(self.type_error(Kind::Number, path));
        };
        let value = token.parse().ok().filter(|value| bounds.contains(value));
        let (min, max) = (bounds.start(), bounds.end());
        value.ok_or_else(|| path.invalid(format_args!("must be an integer from {min} to {max}")))
    }

    /// Returns the matching element of `words`; refuses all other values.
    pub(crate) fn word_at(
        &self,
        words: &[&'static str],
        path: &Path<'_>,
    ) -> Result<&'static str, BoxedError> {
        let known = |text: &str| words.iter().find(|word| **word == text).copied();
        let listed = || path.invalid(format_args!("must be one of {}", Listed(words)));
        self.as_text().and_then(known).ok_or_else(listed)
    }

    /// Returns the value of a required key; fails with `missing_required_parameter` if it is
    /// missing or null.
    pub(crate) fn need(&self, key: &str, path: &Path<'_>) -> Result<&Node<'a>, BoxedError> {
        self.get(key).ok_or_else(|| path.missing(key))
    }

    /// Refuses values that are not objects, keys outside `known`, and duplicate keys.
    pub(crate) fn check_keys(&self, known: &[&[&str]], path: &Path<'_>) -> Result<(), BoxedError> {
        let members = self.object_at(path)?;
        for (place, (key, _)) in members.iter().enumerate() {
            if !known.iter().any(|names| names.contains(&&**key)) {
                return Err(Box::new(DecodeError::unknown(path.key(key).to_string())));
            }
            // The list of earlier keys is short, because they are known and unique.
            if members.iter().take(place).any(|(earlier, _)| earlier == key) {
                return Err(path.duplicate(key));
            }
        }
        Ok(())
    }

    #[cold]
    fn type_error(&self, expected: Kind, path: &Path<'_>) -> BoxedError {
        path.invalid(format_args!(
            "must be {}, not {}",
            expected.name(),
            self.kind().name()
        ))
    }
}
