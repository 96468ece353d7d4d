//! Which labels are one token of a model, and which tokens those are. A server tells only numbers, so a text with one
//! spelling in each line is cut at its most frequent token, which is the end of a line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tollgate_upstream::{CallContext, UpstreamError, letters};

use super::ServerEndpoints;
use crate::openai_compatible::OpenAiCompatible;
use crate::openai_compatible::presets::LabelServer;

/// A label and the tokens that say it, in all of its spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelled {
    pub(super) label: String,
    pub(super) tokens: Vec<u64>,
}

/// What was asked of a model's vocabulary.
#[derive(Debug)]
pub(super) struct Known {
    letters: Vec<Spelled>,
    pairs: Vec<Spelled>,
}

/// The vocabularies that were asked, by model.
#[derive(Debug, Default)]
pub(super) struct Vocabulary(Mutex<HashMap<String, Arc<Known>>>);

impl Known {
    /// So many labels, or as many as there are. No label begins as another does: they are all letters, or all pairs.
    pub(super) fn labels(&self, number: usize) -> Vec<String> {
        let found = match number <= self.letters.len() || self.pairs.len() <= self.letters.len() {
            true => &self.letters,
            false => &self.pairs,
        };
        found.iter().take(number).map(|one| one.label.clone()).collect()
    }

    /// The tokens that say this label.
    pub(super) fn tokens(&self, label: &str) -> Option<&[u64]> {
        let mut all = self.letters.iter().chain(&self.pairs);
        Some(&all.find(|one| one.label == label)?.tokens)
    }
}

/// How a label may be spelled, the spelling first that it is one token in or of no use.
fn spellings(label: &str) -> Vec<String> {
    let lower = (label.len() == 1).then(|| label.to_ascii_lowercase());
    [label.to_owned(), format!(" {label}")]
        .into_iter()
        .chain(lower)
        .collect()
}

fn candidates() -> (Vec<String>, Vec<String>) {
    let pairs = letters().flat_map(|one| letters().map(move |two| format!("{one}{two}")));
    (letters().collect(), pairs.collect())
}

/// Reads the tokens of the text that has each spelling in a line.
fn read(tokens: &[u64]) -> Option<Known> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for token in tokens {
        *counts.entry(*token).or_default() += 1;
    }
    let (line_end, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let mut lines = tokens.split(|token| *token == line_end);
    // The text begins with the end of a line; a server may put its own tokens before it.
    lines.next();
    let (letters, pairs) = candidates();
    let mut spelled = |labels: Vec<String>| -> Option<Vec<Spelled>> {
        let mut found = Vec::with_capacity(labels.len());
        for label in labels {
            let mut said = Vec::new();
            for _ in spellings(&label) {
                said.push(lines.next()?);
            }
            if let [[_], ..] = said[..] {
                let mut tokens: Vec<u64> = said
                    .iter()
                    .filter_map(|line| match line {
                        [token] => Some(*token),
                        _ => None,
                    })
                    .collect();
                tokens.sort_unstable();
                tokens.dedup();
                found.push(Spelled { label, tokens });
            }
        }
        Some(found)
    };
    let known = Known {
        letters: spelled(letters)?,
        pairs: spelled(pairs)?,
    };
    (lines.next().is_some_and(<[u64]>::is_empty) && lines.next().is_none() && known.letters.len() > 1)
        .then_some(known)
}

fn text() -> String {
    let (letters, pairs) = candidates();
    let mut text = String::from("\n");
    for spelling in letters.iter().chain(&pairs).flat_map(|label| spellings(label)) {
        text.push_str(&spelling);
        text.push('\n');
    }
    text
}

impl OpenAiCompatible {
    /// What is known of a model's vocabulary; its server is asked once. `None` when it cannot be told.
    pub(super) async fn vocabulary_of(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        model: &str,
    ) -> Result<Option<Arc<Known>>, UpstreamError> {
        let kept = &self.decisions.vocabulary.0;
        let found = kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(model)
            .cloned();
        if let Some(known) = found {
            return Ok(Some(known));
        }
        let body = match server.kind {
            LabelServer::LlamaCpp => json!({"content": text(), "add_special": false, "parse_special": false}),
            LabelServer::Vllm | LabelServer::Sglang => {
                json!({"model": model, "prompt": text(), "add_special_tokens": false})
            }
        };
        let answer = self.ask_json(ctx, &server.tokenize, &body).await?;
        let tokens = answer.get("tokens").and_then(Value::as_array);
        let tokens: Option<Vec<u64>> = tokens.and_then(|list| list.iter().map(Value::as_u64).collect());
        let Some(known) = tokens.and_then(|tokens| read(&tokens)).map(Arc::new) else {
            return Ok(None);
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(model.to_owned(), known.clone());
        Ok(Some(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary of every letter, and of the pairs without a `Q`; a space before either is a part of its token.
    fn tokenized(text: &str, first: Option<u64>) -> Vec<u64> {
        let mut tokens: Vec<u64> = first.into_iter().collect();
        for line in text.split_inclusive('\n') {
            let (word, end) = line.split_at(line.len() - 1);
            let (lead, letters) = word.strip_prefix(' ').map_or((0, word), |rest| (100_000, rest));
            let numbers: Vec<u64> = letters.bytes().map(u64::from).collect();
            match (&numbers[..], letters.contains('Q')) {
                ([], _) => {}
                ([one], _) => tokens.push(lead + one),
                ([one, two], false) => tokens.push(lead + one * 1_000 + two),
                (many, _) => tokens.extend(many),
            }
            assert_eq!(end, "\n");
            tokens.push(7);
        }
        tokens
    }

    #[test]
    fn labels_are_one_token_each() {
        for first in [None, Some(1)] {
            let known = read(&tokenized(&text(), first)).unwrap();
            assert_eq!(known.labels(3), ["A", "B", "C"]);
            assert_eq!(known.tokens("A"), Some(&[65, 97, 100_065][..]));
            let many = known.labels(255);
            assert_eq!((many.len(), many[0].as_str()), (255, "AA"));
            assert!(known.tokens("AQ").is_none() && known.tokens("QA").is_none());
            assert_eq!(known.tokens("AB"), Some(&[65_066, 165_066][..]));
            assert_eq!(known.labels(700).len(), 625, "as many as there are");
        }
    }

    #[test]
    fn tokens_that_cannot_be_told_apart_are_no_vocabulary() {
        assert!(read(&[]).is_none());
        assert!(read(&[7; 10_000]).is_none());
        let whole = tokenized(&text(), None);
        assert!(read(&whole[..whole.len() - 9]).is_none(), "cut");
        let doubled: Vec<u64> = whole.iter().flat_map(|token| [*token, 9]).collect();
        assert!(read(&doubled).is_none());
    }
}
