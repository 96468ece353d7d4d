//! Methods that read a value of one type. For another type, they return an error with the path of
//! the value.

use std::ops::RangeInclusive;

use super::path::Path;
use super::reader::{Kind, Reader};
use super::string::Text;
use crate::error::BoxedError;

impl<'a> Reader<'a> {
    /// Consumes a null if it is the next value, and returns whether it was. An optional parameter
    /// that is null is treated as omitted.
    pub(crate) fn take_null(&mut self) -> Result<bool, BoxedError> {
        if self.kind()? != Kind::Null {
            return Ok(false);
        }
        self.null()?;
        Ok(true)
    }

    pub(crate) fn object_at(&mut self, path: &Path<'_>) -> Result<(), BoxedError> {
        self.expect(Kind::Object, path)?;
        self.begin_object()
    }

    pub(crate) fn array_at(&mut self, path: &Path<'_>) -> Result<(), BoxedError> {
        self.expect(Kind::Array, path)?;
        self.begin_array()
    }

    /// Reads a string; refuses other types.
    pub(crate) fn string_at(&mut self, path: &Path<'_>) -> Result<Text<'a>, BoxedError> {
        self.expect(Kind::String, path)?;
        self.string()
    }

    /// Reads a string with at least one character.
    pub(crate) fn non_empty_string_at(&mut self, path: &Path<'_>) -> Result<Text<'a>, BoxedError> {
        let text = self.string_at(path)?;
        if text.len == 0 {
            return Err(path.invalid("must not be empty"));
        }
        Ok(text)
    }

    /// Reads a string of at most `max` characters.
    pub(crate) fn short_string_at(&mut self, max: usize, path: &Path<'_>) -> Result<Text<'a>, BoxedError> {
        let text = self.string_at(path)?;
        if text.len > max && text.decoded().chars().count() > max {
            return Err(path.invalid(format_args!("must have at most {max} characters")));
        }
        Ok(text)
    }

    /// Reads a string that is one of `words`; refuses all other values.
    pub(crate) fn word_at(
        &mut self,
        words: &[&'static str],
        path: &Path<'_>,
    ) -> Result<&'static str, BoxedError> {
        let not_listed = || path.invalid(format_args!("must be one of {}", Listed(words)));
        if self.kind()? != Kind::String {
            return Err(not_listed());
        }
        let text = self.string()?.decoded();
        words
            .iter()
            .find(|word| **word == text)
            .copied()
            .ok_or_else(not_listed)
    }

    /// Reads a boolean; refuses other types.
    pub(crate) fn boolean_at(&mut self, path: &Path<'_>) -> Result<bool, BoxedError> {
        self.expect(Kind::Bool, path)?;
        self.boolean()
    }

    /// Reads an integer within `bounds`.
    pub(crate) fn integer_at(
        &mut self,
        bounds: RangeInclusive<i64>,
        path: &Path<'_>,
    ) -> Result<i64, BoxedError> {
        self.expect(Kind::Number, path)?;
        match self.number()?.as_i64() {
            Some(value) if bounds.contains(&value) => Ok(value),
            _ if *bounds.end() == i64::MAX => {
                Err(path.invalid(format_args!("must be an integer of at least {}", bounds.start())))
            }
            _ => Err(path.invalid(format_args!(
                "must be an integer from {} to {}",
                bounds.start(),
                bounds.end()
            ))),
        }
    }

    /// Reads a number within `bounds`.
    pub(crate) fn number_at(
        &mut self,
        bounds: RangeInclusive<f64>,
        path: &Path<'_>,
    ) -> Result<f64, BoxedError> {
        self.expect(Kind::Number, path)?;
        let value = self.number()?.as_f64();
        if bounds.contains(&value) {
            return Ok(value);
        }
        Err(path.invalid(format_args!(
            "must be a number from {} to {}",
            bounds.start(),
            bounds.end()
        )))
    }

    fn expect(&mut self, expected: Kind, path: &Path<'_>) -> Result<(), BoxedError> {
        let found = self.kind()?;
        if found == expected {
            return Ok(());
        }
        Err(path.invalid(format_args!("must be {}, not {}", expected.name(), found.name())))
    }
}

/// Displays words as `'a', 'b' or 'c'`.
pub(super) struct Listed<'w>(pub(super) &'w [&'static str]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, word) in self.0.iter().enumerate() {
            let separator = match place {
                0 => "",
                _ if place + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}'{word}'")?;
        }
        Ok(())
    }
}
