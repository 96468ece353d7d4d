//! Response bodies and helpers shared by the handlers.

use std::str::FromStr;

use serde::Serialize;
use tollgate_types::{Error, ErrorCode};
use utoipa::ToSchema;

/// A page of results.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct List<T> {
    /// Results in the documented order.
    pub(super) data: Vec<T>,
    /// Whether more results follow.
    pub(super) has_more: bool,
}

/// Confirmation of a change that has no other result.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// Always `true`.
    pub(super) done: bool,
}

impl<T> List<T> {
    /// Creates a list of all results.
    pub(super) fn whole(data: Vec<T>) -> Self {
        Self {
            data,
            has_more: false,
        }
    }

    /// Creates a page of at most `limit` results. `data` contains one result more than `limit` if
    /// another page follows.
    pub(super) fn page(mut data: Vec<T>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = data.len() > limit;
        data.truncate(limit);
        Self { data, has_more }
    }
}

pub(super) fn unexpected() -> Error {
    Error::internal("unexpected reply to a command")
}

/// Parses an id in a path. Returns the error `not_found` for a malformed id.
pub(super) fn id<T: FromStr>(text: &str, what: &str) -> Result<T, Error> {
    let unknown = |_| Error::new(ErrorCode::NotFound, format!("The {what} does not exist."));
    text.parse().map_err(unknown)
}
