//! Lists and ids that the admin and console APIs share.

use std::str::FromStr;

use serde::Serialize;
use tollgate_types::{Error, ErrorCode};
use utoipa::ToSchema;

/// A page of results.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T> {
    /// Results in the documented order.
    pub data: Vec<T>,
    /// Whether more results follow.
    pub has_more: bool,
}

/// Confirmation of a change that has no other result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Done {
    /// Always `true`.
    pub done: bool,
}

impl<T> List<T> {
    /// Creates a list of all results.
    pub fn whole(data: Vec<T>) -> Self {
        Self {
            data,
            has_more: false,
        }
    }

    /// Creates a page of at most `limit` results. `data` contains one result more than `limit` if
    /// another page follows.
    pub fn page(mut data: Vec<T>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = data.len() > limit;
        data.truncate(limit);
        Self { data, has_more }
    }
}

/// Parses an id in a path. Returns the error `not_found` for a malformed id.
pub fn path_id<T: FromStr>(text: &str, what: &str) -> Result<T, Error> {
    let unknown = |_| Error::new(ErrorCode::NotFound, format!("The {what} does not exist."));
    text.parse().map_err(unknown)
}
