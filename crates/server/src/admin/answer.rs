//! What handlers answer.

use std::str::FromStr;

use serde::Serialize;
use tollgate_types::{Error, ErrorCode};
use utoipa::ToSchema;

/// A page of things.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct List<T> {
    /// The things.
    pub(super) data: Vec<T>,
    /// Whether there are more after the last one.
    pub(super) has_more: bool,
}

impl<T> List<T> {
    /// All there are.
    pub(super) fn whole(data: Vec<T>) -> Self {
        Self {
            data,
            has_more: false,
        }
    }

    /// At most `limit`, of which one more was asked for.
    pub(super) fn page(mut data: Vec<T>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = data.len() > limit;
        data.truncate(limit);
        Self { data, has_more }
    }
}

/// Carries out a command whose reply is of this kind, and answers what it has.
macro_rules! carried_out {
    ($api:expr, $operator:expr, $command:expr, $kind:ident) => {
        match $api.perform(&$operator, $command).await? {
            $crate::control::Reply::$kind(value) => value,
            _ => return Err($crate::admin::answer::unexpected().into()),
        }
    };
}
pub(super) use carried_out;

pub(super) fn unexpected() -> Error {
    Error::internal("a command answered something else")
}

/// The id in a path. What is no id is one that nothing has.
pub(super) fn id<T: FromStr>(text: &str, what: &str) -> Result<T, Error> {
    let unknown = |_| Error::new(ErrorCode::NotFound, format!("There is no such {what}."));
    text.parse().map_err(unknown)
}
