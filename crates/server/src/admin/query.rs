//! What queries have in common.

use std::str::FromStr;

use tollgate_types::{Error, ErrorCode, Timestamp};

const DEFAULT_LIMIT: u32 = 20;
const MOST_LIMIT: u32 = 100;

fn invalid(param: &str, message: String) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// How many are on a page.
pub(super) fn limit(limit: Option<u32>) -> Result<u32, Error> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    match limit {
        1..=MOST_LIMIT => Ok(limit),
        _ => Err(invalid("limit", format!("'limit' is 1 to {MOST_LIMIT}."))),
    }
}

/// An id.
pub(super) fn id<T: FromStr>(param: &str, text: Option<String>) -> Result<Option<T>, Error> {
    let parse = |text: String| {
        let message = || format!("'{param}' is not an id of this service.");
        text.parse().map_err(|_| invalid(param, message()))
    };
    text.map(parse).transpose()
}

/// An instant.
pub(super) fn instant(param: &str, text: Option<String>) -> Result<Option<Timestamp>, Error> {
    let parse = |text: String| {
        let message =
            format!("'{param}' is an instant such as 2026-11-20T00:00:00Z or a date such as 2026-11-20.");
        Timestamp::parse(&text).ok_or_else(|| invalid(param, message))
    };
    text.map(parse).transpose()
}
