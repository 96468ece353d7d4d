//! `x-max-cost`: cost limit of a request, set by its caller.

use http::HeaderMap;
use tollgate_types::{Credits, Error, ErrorCode};

/// Name of the header with the cost limit.
pub const MAX_COST: &str = "x-max-cost";

/// Cost limit from the request's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxCost {
    /// The request has no cost limit.
    #[default]
    Unset,
    /// The limit, in credits.
    Limit(Credits),
    /// The header is not a single, non-negative amount of credits.
    Unreadable,
}

impl MaxCost {
    /// Parses the header: one amount of credits in the usual decimal form.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(MAX_COST).iter();
        let Some(first) = sent.next() else {
            return MaxCost::Unset;
        };
        let text = first.to_str().unwrap_or_default();
        match text.parse() {
            Ok(limit) if limit >= Credits::ZERO && sent.next().is_none() => MaxCost::Limit(limit),
            _ => MaxCost::Unreadable,
        }
    }

    /// Returns an error if the header is invalid.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self != MaxCost::Unreadable {
            return Ok(());
        }
        let message = format!(
            "'{MAX_COST}' must be one amount of credits: a decimal number from 0 with at most nine decimals, such as 0.05."
        );
        Err(Error::new(ErrorCode::InvalidParameter, message).with_param(MAX_COST))
    }

    /// Returns the limit in credits, if it is set.
    pub fn amount(self) -> Option<Credits> {
        match self {
            MaxCost::Limit(limit) => Some(limit),
            MaxCost::Unset | MaxCost::Unreadable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_decimal_credits() {
        let limit = |nanos| MaxCost::Limit(Credits::from_nanos(nanos));
        for (values, expected) in [
            (&[] as &[&str], MaxCost::Unset),
            (&["0.05"], limit(50_000_000)),
            (&["12"], limit(12_000_000_000)),
            (&["0"], limit(0)),
            (&["0.000000001"], limit(1)),
            (&["9223372036.854775807"], limit(i64::MAX)),
            (&["9223372036.854775808"], MaxCost::Unreadable),
            (&["0.0000000001"], MaxCost::Unreadable),
            (&["-1"], MaxCost::Unreadable),
            (&["1e3"], MaxCost::Unreadable),
            (&[".5"], MaxCost::Unreadable),
            (&["+1"], MaxCost::Unreadable),
            (&["0,05"], MaxCost::Unreadable),
            (&[""], MaxCost::Unreadable),
            (&["1", "1"], MaxCost::Unreadable),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(MAX_COST, value.parse().unwrap());
            }
            let read = MaxCost::of(&headers);
            assert_eq!(read, expected, "{values:?}");
            assert_eq!(
                read.check().is_err(),
                expected == MaxCost::Unreadable,
                "{values:?}"
            );
        }
    }
}
