//! From the probabilities of tokens to those of labels.

use serde_json::Value;
use tollgate_upstream::{LabelReading, UpstreamError};

/// Rounding may make a logarithm so much too large.
const ROUNDING: f64 = 1e-2;
/// What stands before a word in the tokens of some vocabularies, when they are told as they are.
const SPACES: [char; 2] = ['\u{0120}', '\u{2581}'];

/// What is told of a token: what it says, and the logarithm of its probability.
pub(crate) type Told = (String, f64);

/// Which label a token or an answer is, in whatever spelling.
pub(crate) fn place_of(text: &str, labels: &[String]) -> Option<usize> {
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || SPACES.contains(&letter));
    let exact = labels.iter().position(|label| label == text);
    exact.or_else(|| labels.iter().position(|label| label.eq_ignore_ascii_case(text)))
}

/// The sum of two probabilities, all of them logarithms.
fn added(one: f64, two: f64) -> f64 {
    let (large, small) = (one.max(two), one.min(two));
    match small == f64::NEG_INFINITY {
        true => large,
        false => large + (small - large).exp().ln_1p(),
    }
}

/// The probabilities of labels, of those that were told. `None` when there are too few to be of use.
pub(crate) fn reading(
    told: &[Told],
    labels: &[String],
    asked: usize,
) -> Result<Option<LabelReading>, UpstreamError> {
    if told.len() < 2.min(asked) {
        return Ok(None);
    }
    let mut sum = f64::NEG_INFINITY;
    let mut logprobs: Vec<Option<f64>> = vec![None; labels.len()];
    for (text, logprob) in told {
        let logprob = checked(*logprob)?;
        sum = added(sum, logprob);
        if let Some(place) = place_of(text, labels) {
            let before = logprobs[place].unwrap_or(f64::NEG_INFINITY);
            logprobs[place] = Some(added(before, logprob));
        }
    }
    // Together they are no more than certain.
    checked(sum)?;
    let mut ranked: Vec<f64> = told.iter().map(|(_, logprob)| *logprob).collect();
    ranked.sort_by(|one, two| two.total_cmp(one));
    // A token that was drawn is told, too, however improbable: it does not bound the others.
    let last = asked.min(ranked.len()).saturating_sub(1);
    Ok(Some(LabelReading {
        logprobs,
        rest: ranked.get(last).map(|logprob| logprob.min(0.0)),
        requests: 1,
    }))
}

/// A logarithm of a probability, or an error when it is none.
pub(crate) fn checked(logprob: f64) -> Result<f64, UpstreamError> {
    match logprob.is_nan() || logprob > ROUNDING {
        true => Err(UpstreamError::protocol("the probability of a token is none")),
        false => Ok(logprob.min(0.0)),
    }
}

/// The likeliest tokens in the place of an answer's first one, in the shape of OpenAI's chat.
pub(crate) fn told_by_chat(logprobs: Option<&Value>) -> Result<Vec<Told>, UpstreamError> {
    let first = logprobs.and_then(|logprobs| logprobs.pointer("/content/0/top_logprobs")?.as_array());
    first.map_or(Ok(Vec::new()), |list| told(list))
}

/// The tokens of a list of `{token, logprob}`.
pub(crate) fn told(list: &[Value]) -> Result<Vec<Told>, UpstreamError> {
    let entries = list.iter().map(|entry| {
        let token = entry.get("token")?.as_str()?.to_owned();
        Some((token, entry.get("logprob")?.as_f64()?))
    });
    let read: Option<Vec<Told>> = entries.collect();
    read.ok_or_else(|| UpstreamError::protocol("a token is told without its probability"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn told(entries: &[(&str, f64)]) -> Vec<Told> {
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
        let read = reading(&told(&entries), &labels(&["A", "B", "C"]), 6)
            .unwrap()
            .unwrap();
        let shares: Vec<Option<f64>> = read.logprobs.iter().map(|one| one.map(f64::exp)).collect();
        assert!((shares[0].unwrap() - 0.7).abs() < 1e-9 && (shares[1].unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(shares[2], None);
        assert!((read.rest.unwrap() - 0.05_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn what_was_drawn_beyond_the_likeliest_bounds_nothing() {
        let entries = told(&[("A", 0.6), ("B", 0.3), ("zebra", 0.001)]);
        let read = reading(&entries, &labels(&["A", "B"]), 2).unwrap().unwrap();
        assert!((read.rest.unwrap() - 0.3_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
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
    fn too_few_tokens_are_no_reading() {
        let two = labels(&["A", "B"]);
        assert_eq!(reading(&[], &two, 20).unwrap(), None);
        assert_eq!(reading(&told(&[("A", 0.9)]), &two, 20).unwrap(), None);
        assert!(reading(&told(&[("A", 0.9)]), &two, 1).unwrap().is_some());
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
            let found = told_by_chat(Some(&logprobs)).ok().map(|told| told.len());
            assert_eq!(found, number, "{logprobs}");
        }
        assert!(told_by_chat(None).unwrap().is_empty());
    }
}
