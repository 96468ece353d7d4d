//! Maps database errors to error kinds of the storage ports.

use sqlx::Error;
use tollgate_storage::{StorageError, StorageErrorKind};

/// Converts a failure that occurred before a statement was sent: nothing was written.
pub(super) fn before_running(error: Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}

/// Converts a failure during a statement, which may have been executed.
pub(super) fn while_running(error: Error) -> StorageError {
    let kind = match &error {
        Error::Database(database) => match database.code() {
            Some(code) => kind_of_code(&code),
            None => StorageErrorKind::Corrupt,
        },
        // The connection broke; whether the statement was committed is unknown.
        Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed => StorageErrorKind::Timeout,
        Error::PoolTimedOut | Error::PoolClosed | Error::BeginFailed => StorageErrorKind::Unavailable,
        Error::RowNotFound => StorageErrorKind::NotFound,
        _ => StorageErrorKind::Corrupt,
    };
    StorageError::new(kind, error)
}

/// Maps a SQLSTATE (PostgreSQL documentation, Appendix A). The functions of the schema raise codes
/// of the form `TG…`. A statement that fails with an error is rolled back. Only a statement whose
/// connection the server ended may have been committed.
fn kind_of_code(code: &str) -> StorageErrorKind {
    match code {
        "TG404" | "23503" => StorageErrorKind::NotFound,
        // Unique violation, check violation, number out of range.
        "TG409" | "23505" | "23514" | "22003" => StorageErrorKind::Conflict,
        // Statement, lock or transaction timeout; shutdown or crash of the server.
        "57014" | "55P03" | "57P01" | "57P02" | "25P03" => StorageErrorKind::Timeout,
        // Serialization failure, deadlock, a server that became a standby or is starting.
        "40001" | "40P01" | "25006" | "57P03" => StorageErrorKind::Unavailable,
        // No connection, wrong credentials, no permission, out of resources, system error of the
        // server.
        _ => match &code[..code.len().min(2)] {
            "08" | "28" | "53" | "58" => StorageErrorKind::Unavailable,
            _ if code == "42501" => StorageErrorKind::Unavailable,
            _ => StorageErrorKind::Corrupt,
        },
    }
}

/// Creates a `Corrupt` error for an invalid stored value.
pub(super) fn corrupt(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_of_their_kind() {
        let cases = [
            ("TG404", StorageErrorKind::NotFound),
            ("TG409", StorageErrorKind::Conflict),
            ("23505", StorageErrorKind::Conflict),
            ("40P01", StorageErrorKind::Unavailable),
            ("40001", StorageErrorKind::Unavailable),
            ("57014", StorageErrorKind::Timeout),
            ("57P01", StorageErrorKind::Timeout),
            ("57P03", StorageErrorKind::Unavailable),
            ("53300", StorageErrorKind::Unavailable),
            ("08006", StorageErrorKind::Unavailable),
            ("42501", StorageErrorKind::Unavailable),
            ("42P01", StorageErrorKind::Corrupt),
            ("", StorageErrorKind::Corrupt),
        ];
        for (code, kind) in cases {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }
}
