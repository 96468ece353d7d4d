//! Arguments of several commands, and the parsers of their values.

use std::str::FromStr;

use tollgate_types::{AccountId, HoldId, RequestId, Timestamp};

/// Account argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountArg {
    /// Id, which is unique.
    Id(AccountId),
    /// Name, which several accounts may share.
    Name(String),
}

impl FromStr for AccountArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(id) => Ok(AccountArg::Id(id)),
            Err(_) if text.is_empty() || text.starts_with(AccountId::PREFIX) => {
                Err("expected an account id: acct_ and 32 hex digits; `tollgate accounts list` shows the ids")
            }
            Err(_) => Ok(AccountArg::Name(text.to_owned())),
        }
    }
}

pub fn instant(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text)
        .ok_or("expected RFC 3339, such as 2026-11-20T13:30:00Z, or a date, such as 2026-11-20")
}

/// Parses a request id or a hold id; the ids of a call differ only in their prefix.
pub fn call_id(text: &str) -> Result<RequestId, &'static str> {
    let of_hold = || {
        text.parse::<HoldId>()
            .map(|id| RequestId::from_u128(id.as_u128()))
    };
    text.parse()
        .or_else(|_| of_hold())
        .map_err(|_| "expected a call id: req_ or hold_ and 32 hex digits; see the `x-request-id` header")
}

pub fn request_id(text: &str) -> Result<RequestId, &'static str> {
    text.parse()
        .map_err(|_| "expected a request id: req_ and 32 hex digits; see the `x-request-id` header")
}
