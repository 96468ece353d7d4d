//! The `x-ratelimit-*` headers, in the names and units that OpenAI's clients read.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollgate_storage::Decision;

use crate::header_values::HeaderValues;

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Inserts the headers for the current state of the windows.
pub(crate) fn insert(
    headers: &mut HeaderMap,
    values: &mut HeaderValues,
    requests: Option<Decision>,
    tokens: Option<Decision>,
) {
    for (names, decision) in [(&REQUESTS, requests), (&TOKENS, tokens)] {
        let Some(decision) = decision else { continue };
        let [limit, remaining, reset] = names;
        values.insert(headers, limit, decision.limit);
        values.insert(headers, remaining, decision.remaining);
        values.insert(headers, reset, Reset(decision.reset));
    }
}

/// A duration as OpenAI writes it: `12ms`, `1.5s`, `6m0s`.
struct Reset(Duration);

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_micros().div_ceil(1000);
        match millis {
            0..1_000 => write!(f, "{millis}ms"),
            1_000..60_000 if millis.is_multiple_of(1_000) => write!(f, "{}s", millis / 1_000),
            1_000..60_000 => {
                let fraction = format!("{:03}", millis % 1_000);
                write!(f, "{}.{}s", millis / 1_000, fraction.trim_end_matches('0'))
            }
            _ => {
                let seconds = millis.div_ceil(1_000);
                write!(f, "{}m{}s", seconds / 60, seconds % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_like_6m0s() {
        let cases = [
            (0, "0ms"),
            (12, "12ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (59_999, "59.999s"),
            (360_000, "6m0s"),
        ];
        for (millis, text) in cases {
            assert_eq!(Reset(Duration::from_millis(millis)).to_string(), text);
        }
        assert_eq!(Reset(Duration::from_micros(1)).to_string(), "1ms");
    }
}
