//! Refusals that several use cases have.

use tollgate_storage::{StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode};

/// What cannot be wished for, by the name of the parameter.
pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// A failure of storage for an account that may not be there.
pub fn no_such_account(error: StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such account."),
        _ => Error::internal(error),
    }
}
