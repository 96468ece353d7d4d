//! How providers of text are brought to numbers: a label is asked for, and either its probability is read off the first
//! token of the answer or answers are counted. What is said here is the same for all of them; where each is asked is in
//! its own folder.

mod by_text;
mod labels;
mod memory;
pub(crate) mod native;

use std::collections::VecDeque;
use std::future::Future;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_upstream::{LabelCall, LabelDraws, UpstreamError, UpstreamErrorKind};

pub(crate) use by_text::{ByText, base64_of};
pub(crate) use labels::{place_of, reading, told, told_by_chat};
pub(crate) use memory::{Means, Memory};

/// The most answers of one request for draws that are under way at once.
const AT_A_TIME: usize = 8;
/// The most tokens of an answer that is counted: the label, and what a model thinks before.
pub(crate) const DRAWN_TOKENS: u64 = 4_096;

/// Whether all media of a state are among these kinds.
pub(crate) fn takes(kinds: &[StateMediaKind], state: &State) -> bool {
    state.media.iter().all(|one| kinds.contains(&one.kind))
}

/// The schema of an answer that is one of these labels.
pub(crate) fn schema(labels: &[String]) -> Value {
    json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": labels}},
        "required": ["answer"],
        "additionalProperties": false,
    })
}

/// The label that an answer is, as JSON of that schema or alone.
pub(crate) fn answered(text: &str, labels: &[String]) -> Option<usize> {
    let shaped: Option<Value> = serde_json::from_str(text.trim()).ok();
    match shaped.as_ref().and_then(|value| value.get("answer")?.as_str()) {
        Some(label) => place_of(label, labels),
        None => place_of(text, labels),
    }
}

/// Draws so many answers by requests of at most `at_once` each. `ask` is told how many and a seed, and answers with the
/// label that each is, if it is one.
pub(crate) async fn draw<F>(
    call: &LabelCall,
    number: u32,
    at_once: u32,
    ask: impl Fn(u32, u64) -> F,
) -> Result<LabelDraws, UpstreamError>
where
    F: Future<Output = Result<Vec<Option<usize>>, UpstreamError>>,
{
    let mut draws = LabelDraws {
        counts: vec![0; call.labels.len()],
        others: 0,
        requests: 0,
    };
    let (mut left, mut seed) = (number, call.seed);
    while left > 0 {
        let mut sizes = VecDeque::new();
        let mut planned = 0;
        while planned < left {
            let size = at_once.clamp(1, left - planned);
            sizes.push_back((size, seed));
            (planned, seed) = (planned + size, seed.wrapping_add(1));
        }
        draws.requests += u32::try_from(sizes.len()).unwrap_or(u32::MAX);
        let asked = sizes.into_iter().map(|(size, seed)| ask(size, seed));
        let came: Vec<Vec<Option<usize>>> = stream::iter(asked).buffered(AT_A_TIME).try_collect().await?;
        let before = left;
        for answer in came.into_iter().flatten() {
            // More than was asked for would be drawn by somebody else's measure.
            if left == 0 {
                break;
            }
            left -= 1;
            match answer.and_then(|place| draws.counts.get_mut(place)) {
                Some(count) => *count += 1,
                None => draws.others += 1,
            }
        }
        if left == before {
            return Err(UpstreamError::protocol(
                "no answer came where several were asked for",
            ));
        }
    }
    Ok(draws)
}

/// A call that every deployment carries out that has the means: it tells whether a refusal is the means' or the caller's.
pub(crate) fn probe(call: &LabelCall) -> LabelCall {
    LabelCall {
        upstream_model: call.upstream_model.clone(),
        state: State {
            text: "The sky is blue.".to_owned(),
            media: Vec::new(),
        }
        .into(),
        question: "Is it said what colour the sky has?\nA) yes\nB) no\nAnswer with the letter alone.".into(),
        labels: ["A".to_owned(), "B".to_owned()].into(),
        seed: 0,
    }
}

/// What became of an attempt by these means: a deployment that does not have them is remembered, and the answer is `None`.
/// `probe` is asked where a refusal does not say what it refuses.
pub(crate) async fn settled<T, P>(
    memory: &Memory,
    model: &str,
    means: Means,
    attempt: Result<Option<T>, UpstreamError>,
    probe: impl Future<Output = Result<Option<P>, UpstreamError>>,
) -> Result<Option<T>, UpstreamError> {
    let lacks = match &attempt {
        Ok(found) => found.is_none(),
        Err(error) if means.is_lacking(error) => true,
        Err(error) if error.kind == UpstreamErrorKind::Rejected => match probe.await {
            Ok(found) => found.is_none(),
            Err(other) => other.kind == UpstreamErrorKind::Rejected || means.is_lacking(&other),
        },
        Err(_) => false,
    };
    if !lacks {
        return attempt;
    }
    if let Err(error) = &attempt {
        tracing::info!(model, ?means, %error, "a deployment does not tell probabilities in this way");
    }
    memory.lacks(model, means);
    Ok(None)
}

#[cfg(test)]
mod tests;
