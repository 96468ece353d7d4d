//! Parsers for query parameters shared by several endpoints.

use std::str::FromStr;

use tollgate_types::{Error, ErrorCode, Timestamp};

const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;

fn invalid(param: &str, message: String) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// Returns the page size; [`DEFAULT_LIMIT`] if `limit` is `None`. Fails unless the size is from 1
/// to [`MAX_LIMIT`].
pub(super) fn limit(limit: Option<u32>) -> Result<u32, Error> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    match limit {
        1..=MAX_LIMIT => Ok(limit),
        _ => Err(invalid(
            "limit",
            format!("'limit' must be from 1 to {MAX_LIMIT}."),
        )),
    }
}

/// Parses the optional id in the query parameter `param`.
pub(super) fn id<T: FromStr>(param: &str, text: Option<String>) -> Result<Option<T>, Error> {
    let parse = |text: String| {
        let message = || format!("'{param}' is not a valid id.");
        text.parse().map_err(|_| invalid(param, message()))
    };
    text.map(parse).transpose()
}

/// Parses the optional time in the query parameter `param`: RFC 3339, or a date in UTC.
pub(super) fn instant(param: &str, text: Option<String>) -> Result<Option<Timestamp>, Error> {
    let parse = |text: String| {
        let message =
            format!("'{param}' must be a time such as 2026-11-20T00:00:00Z or a date such as 2026-11-20.");
        Timestamp::parse(&text).ok_or_else(|| invalid(param, message))
    };
    text.map(parse).transpose()
}
