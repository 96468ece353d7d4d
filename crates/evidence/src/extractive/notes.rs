//! Notes of a page: its best sentences for each question.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::prose::is_statement;
use super::similarity::{common, jaccard, terms_of};
use crate::bm25::Bm25;
use crate::injection::is_suspected;
use crate::quote::{MAX_QUOTE_CHARS, MIN_QUOTE_CHARS};
use crate::sentences::sentences;
use crate::text::CharText;
use crate::words::terms;

/// Sentences per question that compete for a place among the notes.
const MAX_CANDIDATES: usize = 100;

/// Minimum relevance of a note.
const MIN_RELEVANCE: f32 = 0.2;

/// Minimum relevance of a note, as a share of the best one for its question on the page.
const MIN_SHARE: f32 = 0.6;

/// Weight of relevance against redundancy (maximal marginal relevance).
const RELEVANCE_WEIGHT: f32 = 0.7;

/// Maximum similarity of two notes.
const MAX_SIMILARITY: f32 = 0.8;

/// BM25 score that counts half.
const HALF_SCORE: f32 = 4.0;

/// Additional relevance of a sentence with a figure, for a question that asks for one.
const FIGURE_BONUS: f32 = 0.2;

/// Beginnings of questions that ask for a number or a time, in lower case.
const FIGURE_QUESTIONS: [&str; 30] = [
    "how many",
    "how much",
    "how high",
    "how tall",
    "how deep",
    "how long",
    "how far",
    "how fast",
    "how wide",
    "how old",
    "how heavy",
    "how large",
    "how big",
    "how strong",
    "how often",
    "when ",
    "which year",
    "what year",
    "what time",
    "what date",
    "temperature",
    "price",
    "cost",
    "turnout",
    "record",
    "wie viel",
    "wie hoch",
    "wann ",
    "combien",
    "cuánt",
];

/// A note of a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoteDraft {
    /// Claim: the sentence, verbatim.
    pub claim: String,
    /// Quote that supports the claim; equal to it.
    pub quote: String,
    /// Relevance for the question, 0 to 1.
    pub relevance: f32,
    /// Number of the question in the argument list.
    pub question: usize,
}

struct Candidate<'p> {
    text: &'p str,
    terms: Vec<u64>,
    relevance: f32,
    question: usize,
}

/// Returns the best sentences of a page for the questions, most useful first, at most `limit`. A
/// sentence has 20 to 600 characters, states something, and repeats no better one. Passages that
/// address a model are skipped.
pub fn notes(questions: &[String], passages: &[&str], limit: usize) -> Vec<NoteDraft> {
    let sentences = statements(passages);
    let wanted: HashSet<String> = questions.iter().flat_map(|question| terms(question)).collect();
    let index = Bm25::for_terms(&sentences, |term| wanted.contains(term));
    // For each sentence, its best question.
    let mut best: HashMap<usize, Candidate> = HashMap::new();
    for (question, text) in questions.iter().enumerate() {
        let query = terms_of(text);
        let wants_figure = asks_for_figure(text);
        for (number, score) in index.rank(text, MAX_CANDIDATES) {
            let terms = terms_of(sentences[number]);
            let has_figure = sentences[number].contains(|c: char| c.is_numeric());
            let relevance = relevance(score, &query, &terms, wants_figure && has_figure);
            let is_better = best
                .get(&number)
                .is_none_or(|candidate| relevance > candidate.relevance);
            if relevance >= MIN_RELEVANCE && is_better {
                let text = sentences[number];
                best.insert(
                    number,
                    Candidate {
                        text,
                        terms,
                        relevance,
                        question,
                    },
                );
            }
        }
    }
    let mut tops = vec![0.0_f32; questions.len()];
    for candidate in best.values() {
        tops[candidate.question] = tops[candidate.question].max(candidate.relevance);
    }
    best.retain(|_, candidate| candidate.relevance >= MIN_SHARE * tops[candidate.question]);
    let mut candidates: Vec<(usize, Candidate)> = best.into_iter().collect();
    candidates.sort_by(|(one, a), (two, b)| b.relevance.total_cmp(&a.relevance).then(one.cmp(two)));
    candidates.truncate(MAX_CANDIDATES);
    select(
        candidates.into_iter().map(|(_, candidate)| candidate).collect(),
        limit,
    )
}

/// Returns the statements of passages that do not address a model.
fn statements<'p>(passages: &[&'p str]) -> Vec<&'p str> {
    let mut statements = Vec::new();
    for passage in passages.iter().filter(|passage| !is_suspected(passage)) {
        let index = CharText::new(passage);
        let spans = sentences(passage).into_iter();
        let spans =
            spans.filter(|span| (MIN_QUOTE_CHARS..=MAX_QUOTE_CHARS).contains(&(span.end - span.start)));
        let texts = spans.filter_map(|span| index.span(span));
        statements.extend(texts.filter(|text| is_statement(text)));
    }
    statements
}

/// Returns the relevance of a sentence, from its share of the question's terms and its score. Zero
/// if it has only one of several terms of the question, unless it is one of two, or has a figure
/// for which the question asks.
fn relevance(score: f32, query: &[u64], terms: &[u64], is_figure: bool) -> f32 {
    let matches = common(query, terms);
    let min_matches = query.len().div_ceil(3).min(if is_figure { 1 } else { 2 });
    if matches < min_matches {
        return 0.0;
    }
    let coverage = matches as f32 / query.len().max(1) as f32;
    let bonus = if is_figure { FIGURE_BONUS } else { 0.0 };
    (0.6 * coverage + 0.4 * score / (score + HALF_SCORE) + bonus).min(1.0)
}

/// Whether a question asks for a number, an amount or a time.
fn asks_for_figure(question: &str) -> bool {
    let lower = question.to_lowercase();
    FIGURE_QUESTIONS.iter().any(|start| lower.contains(start))
}

/// Chooses notes one by one: each the most relevant one that is not similar to those before.
fn select(mut candidates: Vec<Candidate>, limit: usize) -> Vec<NoteDraft> {
    let mut chosen: Vec<Candidate> = Vec::new();
    let mut redundancy = vec![0.0_f32; candidates.len()];
    while chosen.len() < limit {
        let value = |place: usize, candidate: &Candidate| {
            RELEVANCE_WEIGHT * candidate.relevance - (1.0 - RELEVANCE_WEIGHT) * redundancy[place]
        };
        let fresh = candidates
            .iter()
            .enumerate()
            .filter(|(place, _)| redundancy[*place] < MAX_SIMILARITY);
        // The first of equals, which is the more relevant one or earlier in the page.
        let best = fresh
            .rev()
            .max_by(|(one, a), (two, b)| value(*one, a).total_cmp(&value(*two, b)));
        let Some((place, _)) = best else {
            break;
        };
        let candidate = candidates.remove(place);
        redundancy.remove(place);
        for (redundancy, other) in redundancy.iter_mut().zip(&candidates) {
            *redundancy = redundancy.max(jaccard(&candidate.terms, &other.terms));
        }
        chosen.push(candidate);
    }
    let drafts = chosen.into_iter().map(|candidate| NoteDraft {
        claim: candidate.text.to_owned(),
        quote: candidate.text.to_owned(),
        relevance: candidate.relevance,
        question: candidate.question,
    });
    drafts.collect()
}
