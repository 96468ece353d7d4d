//! The `range` header (RFC 9110, section 14): one range of bytes. Several are answered with all of it, as is what is none.

use std::ops::Range;

/// What a request wants of an object of some length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Nothing that is there.
    Nothing,
}

/// What the header asks for.
pub(crate) fn wanted(header: &str, length: u64) -> Wanted {
    let Some(text) = header.trim().strip_prefix("bytes=") else {
        return Wanted::Whole;
    };
    let Some((first, last)) = text.trim().split_once('-').filter(|_| !text.contains(',')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Wanted::Whole,
        (Some(first), _) if first >= length => Wanted::Nothing,
        (Some(first), Some(last)) => Wanted::Part(first..last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => Wanted::Part(first..length),
        (None, Some(0)) if first.is_empty() => Wanted::Nothing,
        (None, Some(_)) if first.is_empty() && length == 0 => Wanted::Nothing,
        (None, Some(count)) if first.is_empty() => Wanted::Part(length.saturating_sub(count)..length),
        _ => Wanted::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_what_is_there() {
        for (header, length, expected) in [
            ("bytes=0-3", 10, Wanted::Part(0..4)),
            ("bytes=4-", 10, Wanted::Part(4..10)),
            ("bytes=9-99", 10, Wanted::Part(9..10)),
            ("bytes=-3", 10, Wanted::Part(7..10)),
            ("bytes=-30", 10, Wanted::Part(0..10)),
            ("bytes=10-", 10, Wanted::Nothing),
            ("bytes=-0", 10, Wanted::Nothing),
            ("bytes=0-", 0, Wanted::Nothing),
            ("bytes=-1", 0, Wanted::Nothing),
            ("bytes=0-18446744073709551615", 10, Wanted::Part(0..10)),
            ("bytes=99999999999999999999-", 10, Wanted::Nothing),
            ("bytes=3-1", 10, Wanted::Whole),
            ("bytes=0-1,4-5", 10, Wanted::Whole),
            ("bytes=a-b", 10, Wanted::Whole),
            ("bytes=+1-2", 10, Wanted::Whole),
            ("items=0-1", 10, Wanted::Whole),
            ("bytes=-", 10, Wanted::Whole),
            ("", 10, Wanted::Whole),
        ] {
            assert_eq!(wanted(header, length), expected, "{header} of {length}");
        }
    }
}
