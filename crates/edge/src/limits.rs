//! The `x-ratelimit-*` headers, in the names and units that OpenAI's clients read.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_storage::Decision;

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

/// Says what the windows hold.
pub(crate) fn insert(headers: &mut HeaderMap, requests: Option<Decision>, tokens: Option<Decision>) {
    for (names, decision) in [(&REQUESTS, requests), (&TOKENS, tokens)] {
        let Some(decision) = decision else { continue };
        let [limit, remaining, reset] = names;
        headers.insert(limit.clone(), HeaderValue::from(decision.limit));
        headers.insert(remaining.clone(), HeaderValue::from(decision.remaining));
        if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(duration_text(decision.reset))) {
            headers.insert(reset.clone(), value);
        }
    }
}

/// A duration as OpenAI writes it: `12ms`, `1.5s`, `6m0s`.
fn duration_text(duration: Duration) -> String {
    let millis = duration.as_micros().div_ceil(1000);
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        1_000..60_000 => {
            let fraction = format!("{:03}", millis % 1_000);
            format!("{}.{}s", millis / 1_000, fraction.trim_end_matches('0'))
        }
        _ => {
            let seconds = millis.div_ceil(1_000);
            format!("{}m{}s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_theirs() {
        let cases = [
            (0, "0ms"),
            (12, "12ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (59_999, "59.999s"),
            (360_000, "6m0s"),
        ];
        for (millis, text) in cases {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration_text(Duration::from_micros(1)), "1ms");
    }
}
