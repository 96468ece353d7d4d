//! Paths from the top of a body to a value.

use std::fmt;

use crate::error::{BoxedError, DecodeError};

/// Path to a value: a linked list of steps on the stack, from the value up to the top. It is
/// formatted only for errors.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Top,
    Key(&'p str),
    Index(u32),
}

impl<'p> Path<'p> {
    /// The path of the body itself.
    pub(crate) const TOP: Path<'static> = Path {
        parent: None,
        step: Step::Top,
    };

    /// Returns the path of the value of this key.
    pub(crate) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// Returns the path of the element at this index.
    pub(crate) fn index(&'p self, index: u32) -> Path<'p> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// Returns the error `invalid_parameter` for this value. `rule` continues the sentence that
    /// starts with the name of the parameter: `must be a string`.
    #[cold]
    pub(crate) fn invalid(&self, rule: impl fmt::Display) -> BoxedError {
        if matches!(self.step, Step::Top) {
            return Box::new(DecodeError {
                code: tollgate_types::ErrorCode::InvalidParameter,
                param: None,
                message: format!("The request body {rule}."),
            });
        }
        Box::new(DecodeError::invalid(
            self.to_string(),
            format!("'{self}' {rule}."),
        ))
    }

    /// Returns the error `missing_required_parameter` for a key of this object.
    #[cold]
    pub(crate) fn missing(&self, key: &str) -> BoxedError {
        Box::new(DecodeError::missing(self.key(key).to_string()))
    }

    /// Returns the error `unsupported_parameter` for this value. `why` continues the sentence that
    /// starts with the name of the parameter.
    #[cold]
    pub(crate) fn unsupported(&self, why: impl fmt::Display) -> BoxedError {
        Box::new(DecodeError::unsupported(self.to_string(), why))
    }

    /// Like [`duplicate`](Self::duplicate), but for this value itself.
    #[cold]
    pub(crate) fn duplicate_here(&self) -> BoxedError {
        self.invalid(DUPLICATE_KEY)
    }

    /// Returns the error `invalid_parameter` for a duplicate key of this object.
    ///
    /// RFC 8259 allows duplicates, so this is not `invalid_json`. Parsers differ in which of the
    /// two values they use, and the gateway must price the value that the upstream uses. The path
    /// shows the caller which key to remove.
    #[cold]
    pub(crate) fn duplicate(&self, key: &str) -> BoxedError {
        self.key(key).duplicate_here()
    }
}

const DUPLICATE_KEY: &str = "appears more than once; send it once";

/// Maximum number of characters of a key in an error, so that errors do not repeat a long hostile
/// key in full.
const SHOWN_KEY: usize = 80;

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Top => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                if self.parent.is_some_and(|parent| parent.parent.is_some()) {
                    f.write_str(".")?;
                }
                write!(f, "{key:.SHOWN_KEY$}")
            }
        }
    }
}
