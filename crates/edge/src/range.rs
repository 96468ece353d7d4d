//! The `range` header (RFC 9110, section 14). Only a single byte range is supported; the response
//! to other values is the whole object.

use std::ops::Range;

/// Range of an object that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeRequest {
    /// The whole object.
    Whole,
    /// One range of bytes.
    Part(Range<u64>),
    /// A range outside the object.
    Unsatisfiable,
}

/// Parses the header for an object of this length.
pub(crate) fn parse_range(header: &str, length: u64) -> RangeRequest {
    let Some(text) = header.trim().strip_prefix("bytes=") else {
        return RangeRequest::Whole;
    };
    let Some((first, last)) = text.trim().split_once('-').filter(|_| !text.contains(',')) else {
        return RangeRequest::Whole;
    };
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => RangeRequest::Whole,
        (Some(first), _) if first >= length => RangeRequest::Unsatisfiable,
        (Some(first), Some(last)) => RangeRequest::Part(first..last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => RangeRequest::Part(first..length),
        (None, Some(0)) if first.is_empty() => RangeRequest::Unsatisfiable,
        (None, Some(_)) if first.is_empty() && length == 0 => RangeRequest::Unsatisfiable,
        (None, Some(count)) if first.is_empty() => RangeRequest::Part(length.saturating_sub(count)..length),
        _ => RangeRequest::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_to_the_object() {
        for (header, length, expected) in [
            ("bytes=0-3", 10, RangeRequest::Part(0..4)),
            ("bytes=4-", 10, RangeRequest::Part(4..10)),
            ("bytes=9-99", 10, RangeRequest::Part(9..10)),
            ("bytes=-3", 10, RangeRequest::Part(7..10)),
            ("bytes=-30", 10, RangeRequest::Part(0..10)),
            ("bytes=10-", 10, RangeRequest::Unsatisfiable),
            ("bytes=-0", 10, RangeRequest::Unsatisfiable),
            ("bytes=0-", 0, RangeRequest::Unsatisfiable),
            ("bytes=-1", 0, RangeRequest::Unsatisfiable),
            ("bytes=0-18446744073709551615", 10, RangeRequest::Part(0..10)),
            ("bytes=99999999999999999999-", 10, RangeRequest::Unsatisfiable),
            ("bytes=3-1", 10, RangeRequest::Whole),
            ("bytes=0-1,4-5", 10, RangeRequest::Whole),
            ("bytes=a-b", 10, RangeRequest::Whole),
            ("bytes=+1-2", 10, RangeRequest::Whole),
            ("items=0-1", 10, RangeRequest::Whole),
            ("bytes=-", 10, RangeRequest::Whole),
            ("", 10, RangeRequest::Whole),
        ] {
            assert_eq!(parse_range(header, length), expected, "{header} of {length}");
        }
    }
}
