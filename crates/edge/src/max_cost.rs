//! `x-max-cost`: the most that a request may cost, as its caller says.

use http::HeaderMap;
use tollgate_types::{Credits, Error, ErrorCode};

/// The header.
pub const MAX_COST: &str = "x-max-cost";

/// What a request says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxCost {
    /// Nothing.
    #[default]
    Unsaid,
    /// It may cost this much.
    Most(Credits),
    /// Something that is no amount.
    Unreadable,
}

impl MaxCost {
    /// Reads the headers of a request: one amount of credits, written as everywhere else.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(MAX_COST).iter();
        let Some(first) = sent.next() else {
            return MaxCost::Unsaid;
        };
        let text = first.to_str().unwrap_or_default();
        match text.parse() {
            Ok(most) if most >= Credits::ZERO && sent.next().is_none() => MaxCost::Most(most),
            _ => MaxCost::Unreadable,
        }
    }

    /// Refuses what cannot be read.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self != MaxCost::Unreadable {
            return Ok(());
        }
        let message = format!(
            "'{MAX_COST}' must be one amount of credits: a decimal number with at most nine decimals, such as 0.05."
        );
        Err(Error::new(ErrorCode::InvalidParameter, message).with_param(MAX_COST))
    }

    /// The amount, if there is one.
    pub fn amount(self) -> Option<Credits> {
        match self {
            MaxCost::Most(most) => Some(most),
            MaxCost::Unsaid | MaxCost::Unreadable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_everywhere() {
        let most = |nanos| MaxCost::Most(Credits::from_nanos(nanos));
        for (values, expected) in [
            (&[] as &[&str], MaxCost::Unsaid),
            (&["0.05"], most(50_000_000)),
            (&["12"], most(12_000_000_000)),
            (&["0"], most(0)),
            (&["0.000000001"], most(1)),
            (&["9223372036.854775807"], most(i64::MAX)),
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
