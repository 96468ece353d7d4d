//! Converts token probabilities to label probabilities.

use serde_json::Value;
use tollgate_upstream::{LabelReading, UpstreamError};

/// Maximum excess of a log probability over 0 that counts as a rounding error.
const ROUNDING_TOLERANCE: f64 = 1e-2;
/// Markers for a leading space in raw tokens of certain vocabularies.
const SPACE_MARKERS: [char; 2] = ['\u{0120}', '\u{2581}'];

/// A token's text and its log probability.
pub(crate) type TokenLogprob = (String, f64);

/// Returns the index of the label that equals a token or a response, exactly or else ignoring case.
/// Ignores surrounding white space and [`SPACE_MARKERS`].
pub(crate) fn label_index(text: &str, labels: &[String]) -> Option<usize> {
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || SPACE_MARKERS.contains(&letter));
    let exact = labels.iter().position(|label| label == text);
    exact.or_else(|| labels.iter().position(|label| label.eq_ignore_ascii_case(text)))
}

/// Returns the logarithm of the sum of two probabilities, given as logarithms.
fn log_add(one: f64, two: f64) -> f64 {
    let (large, small) = (one.max(two), one.min(two));
    match small == f64::NEG_INFINITY {
        true => large,
        false => large + (small - large).exp().ln_1p(),
    }
}

/// Returns label probabilities from the reported tokens; `None` if the number of reported tokens is
/// lower than both 2 and `asked`.
pub(crate) fn reading(
    token_logprobs: &[TokenLogprob],
    labels: &[String],
    asked: usize,
) -> Result<Option<LabelReading>, UpstreamError> {
    if token_logprobs.len() < 2.min(asked) {
        return Ok(None);
    }
    let mut sum = f64::NEG_INFINITY;
    let mut logprobs: Vec<Option<f64>> = vec![None; labels.len()];
    for (text, logprob) in token_logprobs {
        let logprob = checked_logprob(*logprob)?;
        sum = log_add(sum, logprob);
        if let Some(index) = label_index(text, labels) {
            let before = logprobs[index].unwrap_or(f64::NEG_INFINITY);
            logprobs[index] = Some(log_add(before, logprob));
        }
    }
    // The sum of the probabilities must be at most 1.
    checked_logprob(sum)?;
    let mut ranked: Vec<f64> = token_logprobs.iter().map(|(_, logprob)| *logprob).collect();
    ranked.sort_by(|one, two| two.total_cmp(one));
    // A sampled token is always reported, even an improbable one, so its probability is no bound
    // for the unreported tokens.
    let last = asked.min(ranked.len()).saturating_sub(1);
    Ok(Some(LabelReading {
        logprobs,
        rest: ranked.get(last).map(|logprob| logprob.min(0.0)),
        requests: 1,
        usage: None,
    }))
}

/// Returns the log probability, at most 0. Returns an error if it exceeds 0 by more than
/// [`ROUNDING_TOLERANCE`] or is not a number.
pub(crate) fn checked_logprob(logprob: f64) -> Result<f64, UpstreamError> {
    match logprob.is_nan() || logprob > ROUNDING_TOLERANCE {
        true => Err(UpstreamError::protocol(
            "the token probabilities are not numbers or exceed 1 in total",
        )),
        false => Ok(logprob.min(0.0)),
    }
}

/// Returns the top tokens of the first output position, from a response in OpenAI's chat format;
/// empty if the response reports none.
pub(crate) fn chat_logprobs(logprobs: Option<&Value>) -> Result<Vec<TokenLogprob>, UpstreamError> {
    let first = logprobs.and_then(|logprobs| logprobs.pointer("/content/0/top_logprobs")?.as_array());
    first.map_or(Ok(Vec::new()), |list| token_logprobs(list))
}

/// Parses a list of `{token, logprob}`.
pub(crate) fn token_logprobs(list: &[Value]) -> Result<Vec<TokenLogprob>, UpstreamError> {
    let entries = list.iter().map(|entry| {
        let token = entry.get("token")?.as_str()?.to_owned();
        Some((token, entry.get("logprob")?.as_f64()?))
    });
    let read: Option<Vec<TokenLogprob>> = entries.collect();
    read.ok_or_else(|| UpstreamError::protocol("a log probability or its token is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn token_logprobs(entries: &[(&str, f64)]) -> Vec<TokenLogprob> {
        let entries = entries.iter();
        entries
            .map(|(text, share)| ((*text).to_owned(), share.ln()))
            .collect()
    }

    #[test]
    fn spellings_of_a_label_are_added_up() {
        let entries = [
            ("A", 0.4),
            (" A", 0.2),
            ("a", 0.1),
            ("\u{0120}B", 0.05),
            ("\u{2581}b", 0.05),
            ("An", 0.1),
        ];
        let read = reading(&token_logprobs(&entries), &labels(&["A", "B", "C"]), 6)
            .unwrap()
            .unwrap();
        let shares: Vec<Option<f64>> = read.logprobs.iter().map(|one| one.map(f64::exp)).collect();
        assert!((shares[0].unwrap() - 0.7).abs() < 1e-9 && (shares[1].unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(shares[2], None);
        assert!((read.rest.unwrap() - 0.05_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn drawn_token_beyond_top_logprobs_sets_no_bound() {
        let entries = token_logprobs(&[("A", 0.6), ("B", 0.3), ("zebra", 0.001)]);
        let read = reading(&entries, &labels(&["A", "B"]), 2).unwrap().unwrap();
        assert!((read.rest.unwrap() - 0.3_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn impossible_logprobs_are_refused() {
        let two = labels(&["A", "B"]);
        for (entries, is_right) in [
            (vec![("A".to_owned(), f64::NAN), ("B".to_owned(), -1.0)], false),
            (vec![("A".to_owned(), 0.5), ("B".to_owned(), -1.0)], false),
            (vec![("A".to_owned(), -0.1), ("B".to_owned(), -0.2)], false),
            (vec![("A".to_owned(), 1e-6), ("B".to_owned(), -9_999.0)], true),
            (
                vec![("A".to_owned(), -0.1), ("B".to_owned(), f64::NEG_INFINITY)],
                true,
            ),
        ] {
            assert_eq!(reading(&entries, &two, 2).is_ok(), is_right, "{entries:?}");
        }
    }

    #[test]
    fn too_few_tokens_give_no_reading() {
        let two = labels(&["A", "B"]);
        assert_eq!(reading(&[], &two, 20).unwrap(), None);
        assert_eq!(reading(&token_logprobs(&[("A", 0.9)]), &two, 20).unwrap(), None);
        assert!(
            reading(&token_logprobs(&[("A", 0.9)]), &two, 1)
                .unwrap()
                .is_some()
        );
        for (logprobs, number) in [
            (
                json!({"content": [{"token": "A", "top_logprobs": [{"token": "A", "logprob": -0.1}]}]}),
                Some(1),
            ),
            (json!({"content": [{"token": "A", "top_logprobs": []}]}), Some(0)),
            (json!({"content": []}), Some(0)),
            (json!({"content": null}), Some(0)),
            (
                json!({"content": [{"top_logprobs": [{"token": "A", "logprob": null}]}]}),
                None,
            ),
            (json!({"content": [{"top_logprobs": [{"logprob": -1}]}]}), None),
        ] {
            let found = chat_logprobs(Some(&logprobs))
                .ok()
                .map(|token_logprobs| token_logprobs.len());
            assert_eq!(found, number, "{logprobs}");
        }
        assert!(chat_logprobs(None).unwrap().is_empty());
    }
}
