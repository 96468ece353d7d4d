//! Errors of the storage layer.

use std::fmt;
use std::time::Duration;

use tollgate_types::{Error, ErrorCode, Retry};

/// Kind of a storage failure, from which callers derive their reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// The row does not exist.
    NotFound,
    /// A uniqueness rule, a quota or the state of a row forbids the operation.
    Conflict,
    /// The engine cannot be reached or is shutting down. No data was written.
    Unavailable,
    /// The engine did not respond in time. The write may have been executed.
    Timeout,
    /// A stored row could not be decoded.
    Corrupt,
}

/// A failure of storage.
#[derive(Debug)]
pub struct StorageError {
    /// Kind of the failure, from which callers derive their reaction.
    pub kind: StorageErrorKind,
    /// Cause of the failure, for logs.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl StorageError {
    /// Creates a failure of this kind.
    pub fn new(kind: StorageErrorKind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// Creates a `NotFound` failure with the message that `what` does not exist.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(StorageErrorKind::NotFound, format!("{what} does not exist"))
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// Converts a storage failure into a public error: `overloaded` with a retry hint for `Unavailable`
/// and `Timeout`, an internal error for all other kinds.
impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error.kind {
            StorageErrorKind::Unavailable | StorageErrorKind::Timeout => {
                let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
                Error::new(ErrorCode::Overloaded, message)
                    .with_retry(Retry::After(Duration::from_secs(2)))
                    .with_source(error.to_string())
            }
            _ => Error::internal(error),
        }
    }
}

/// `Display` prints the cause itself, so `source` returns the source of the cause.
impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_shown_once_without_their_kind() {
        let error = StorageError::new(StorageErrorKind::Unavailable, "the disk is full");
        assert_eq!(error.to_string(), "the disk is full");
        assert!(std::error::Error::source(&error).is_none());
    }
}
