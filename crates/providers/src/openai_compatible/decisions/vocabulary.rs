//! Finds the labels that are single tokens of a model, and their token ids. Tokenize endpoints
//! return only ids, so the text contains one spelling per line. The line end is the text's most
//! frequent token, and separates the spellings in the response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tollgate_upstream::{CallContext, UpstreamError, letters};

use super::ServerEndpoints;
use crate::openai_compatible::OpenAiCompatible;
use crate::openai_compatible::presets::LabelServer;

/// A label and the token ids of those of its spellings that are single tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelTokens {
    pub(super) label: String,
    pub(super) tokens: Vec<u64>,
}

/// Labels that are single tokens of a model's vocabulary.
#[derive(Debug)]
pub(super) struct ModelVocabulary {
    letters: Vec<LabelTokens>,
    pairs: Vec<LabelTokens>,
}

/// Vocabularies by model.
#[derive(Debug, Default)]
pub(super) struct VocabularyCache(Mutex<HashMap<String, Arc<ModelVocabulary>>>);

impl ModelVocabulary {
    /// Returns up to `number` labels, either only letters or only pairs of letters, so that no
    /// label is a prefix of another.
    pub(super) fn labels(&self, number: usize) -> Vec<String> {
        let found = match number <= self.letters.len() || self.pairs.len() <= self.letters.len() {
            true => &self.letters,
            false => &self.pairs,
        };
        found.iter().take(number).map(|one| one.label.clone()).collect()
    }

    /// Returns the token ids of this label; `None` if the label is not a single token.
    pub(super) fn tokens(&self, label: &str) -> Option<&[u64]> {
        let mut all = self.letters.iter().chain(&self.pairs);
        Some(&all.find(|one| one.label == label)?.tokens)
    }
}

/// Returns the spellings of a label. The label is usable only if the first spelling is a single
/// token.
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

/// Parses the tokens of the text that contains one spelling per line; `None` if the lines cannot be
/// separated, or if fewer than two letters are single tokens.
fn read(tokens: &[u64]) -> Option<ModelVocabulary> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for token in tokens {
        *counts.entry(*token).or_default() += 1;
    }
    let (line_end, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let mut lines = tokens.split(|token| *token == line_end);
    // The text starts with a line end, because a server may prepend special tokens.
    lines.next();
    let (letters, pairs) = candidates();
    let mut spelled = |labels: Vec<String>| -> Option<Vec<LabelTokens>> {
        let mut found = Vec::with_capacity(labels.len());
        for label in labels {
            let mut lines_of_label = Vec::new();
            for _ in spellings(&label) {
                lines_of_label.push(lines.next()?);
            }
            if let [[_], ..] = lines_of_label[..] {
                let mut tokens: Vec<u64> = lines_of_label
                    .iter()
                    .filter_map(|line| match line {
                        [token] => Some(*token),
                        _ => None,
                    })
                    .collect();
                tokens.sort_unstable();
                tokens.dedup();
                found.push(LabelTokens { label, tokens });
            }
        }
        Some(found)
    };
    let known = ModelVocabulary {
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
    /// Returns a model's vocabulary, from the cache if the server has returned a usable one before.
    /// `None` if the vocabulary cannot be determined.
    pub(super) async fn vocabulary_of(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        model: &str,
    ) -> Result<Option<Arc<ModelVocabulary>>, UpstreamError> {
        let cache = &self.decisions.vocabulary.0;
        let found = cache
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
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(model.to_owned(), known.clone());
        Ok(Some(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tokens of a simulated vocabulary, which contains all letters, and the pairs
    /// without a `Q`. A leading space belongs to the token.
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
            assert_eq!(known.labels(700).len(), 625, "all valid labels");
        }
    }

    #[test]
    fn ambiguous_tokens_give_no_vocabulary() {
        assert!(read(&[]).is_none());
        assert!(read(&[7; 10_000]).is_none());
        let whole = tokenized(&text(), None);
        assert!(read(&whole[..whole.len() - 9]).is_none(), "cut");
        let doubled: Vec<u64> = whole.iter().flat_map(|token| [*token, 9]).collect();
        assert!(read(&doubled).is_none());
    }
}
