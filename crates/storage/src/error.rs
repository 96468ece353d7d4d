//! What can go wrong in storage.

use std::fmt;

/// What kind of failure it is; callers decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// The row does not exist.
    NotFound,
    /// A uniqueness rule or a quota forbids the write.
    Conflict,
    /// The engine cannot be reached or is shutting down. Nothing was written.
    Unavailable,
    /// The engine did not answer in time. It may have been written.
    Timeout,
    /// What was read makes no sense.
    Corrupt,
}

/// A failure of storage.
#[derive(Debug)]
pub struct StorageError {
    /// What kind of failure it is.
    pub kind: StorageErrorKind,
    /// The cause, for the log.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl StorageError {
    /// A failure of this kind.
    pub fn new(kind: StorageErrorKind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// The row does not exist.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(StorageErrorKind::NotFound, format!("{what} does not exist"))
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.source)
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
