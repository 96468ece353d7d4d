//! Errors that several modules of this crate return.

use tollgate_storage::{StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode};

/// Returns an `invalid_parameter` error for the parameter `param`.
pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// Converts a storage failure for an account that may not exist (404) or may be closed (409); any
/// other failure becomes an internal error.
pub fn no_such_account(error: StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "The account does not exist."),
        StorageErrorKind::Conflict => Error::new(ErrorCode::Conflict, "The account is closed."),
        _ => Error::internal(error),
    }
}
