//! The built-in corpus `demo`: 200 documents about an invented archipelago.
//!
//! The texts are composed from the tables in `data/`, so that names, dates and figures agree. Some
//! documents contradict each other on purpose, and some contain prompt injections.

mod events;
mod places;
mod prose;
mod reports;
mod sea;
mod society;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use tollgate_types::{Clock, Date};

use crate::corpus::Corpus;
use crate::document::Document;
use crate::error::CorpusError;
use crate::location;
use crate::snapshot::Snapshot;
use world::World;

/// Name of the built-in corpus.
const NAME: &str = "demo";
/// Author of the articles without a named one.
const AUTHOR: &str = "Orsel Encyclopedia";

/// A question with its answer in the built-in corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Question in plain English, for a person or as a query.
    pub question: String,
    /// The answer, verbatim as in the documents.
    pub answer: String,
    /// URLs of all documents that contain the answer.
    pub documents: Vec<String>,
}

/// A question on which two documents of the built-in corpus disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Question in plain English, for a person or as a query.
    pub question: String,
    /// The answers, verbatim, each with the URL of the document that states it.
    pub answers: [(String, String); 2],
}

/// Returns the built-in corpus. Its index is in memory, is built at the first search and is shared
/// by all values.
pub fn demo(clock: Arc<dyn Clock>) -> Corpus {
    Corpus::embedded(NAME, clock, snapshot)
}

/// Returns the planted facts of the built-in corpus.
pub fn facts() -> Vec<Fact> {
    let rows = tables()
        .map(|tables| tables.facts)
        .unwrap_or_default()
        .into_iter();
    rows.map(|(question, answer, documents)| Fact {
        question,
        answer,
        documents: documents.iter().map(|slug| url(slug)).collect(),
    })
    .collect()
}

/// Returns the planted contradictions of the built-in corpus.
pub fn contradictions() -> Vec<Contradiction> {
    let rows = tables()
        .map(|tables| tables.contradictions)
        .unwrap_or_default()
        .into_iter();
    rows.map(|(question, answers)| Contradiction {
        question,
        answers: answers.map(|(answer, slug)| (answer, url(&slug))),
    })
    .collect()
}

/// Returns the dates of the documents of the built-in corpus, by URL. Some documents have none.
pub fn dates() -> BTreeMap<String, Date> {
    let documents = documents().unwrap_or_default().into_iter();
    documents
        .filter_map(|document| Some((url(&document.path), document.date?)))
        .collect()
}

/// Rows as in the file; documents are named by the last part of their URL.
#[derive(Deserialize)]
struct Tables {
    facts: Vec<(String, String, Vec<String>)>,
    contradictions: Vec<(String, [(String, String); 2])>,
}

fn tables() -> Result<Tables, CorpusError> {
    world::parse(include_str!("demo/data/facts.toml"))
}

fn url(slug: &str) -> String {
    location::url(&location::default_prefix(NAME), slug)
}

fn snapshot() -> Result<Arc<Snapshot>, CorpusError> {
    static SNAPSHOT: OnceLock<Arc<Snapshot>> = OnceLock::new();
    if let Some(snapshot) = SNAPSHOT.get() {
        return Ok(snapshot.clone());
    }
    // Two first searches may both build the index; the result is the same.
    let snapshot = Snapshot::in_memory(&location::default_prefix(NAME), &documents()?)?;
    Ok(SNAPSHOT.get_or_init(|| Arc::new(snapshot)).clone())
}

/// Composes all documents.
fn documents() -> Result<Vec<Document>, CorpusError> {
    let world = World::load()?;
    let mut articles = Articles {
        documents: Vec::new(),
    };
    places::add(&world, &mut articles);
    sea::add(&world, &mut articles);
    society::add(&world, &mut articles);
    events::add(&world, &mut articles);
    articles.documents.extend(reports::reports(&world));
    Ok(articles.documents)
}

/// Documents in the order of composition.
struct Articles {
    documents: Vec<Document>,
}

impl Articles {
    /// Returns the place of the next article, from 0.
    fn place(&self) -> usize {
        self.documents.len()
    }

    fn push(&mut self, document: Document) {
        self.documents.push(document);
    }

    /// Adds an article of the encyclopedia with a date in the first half of 2026.
    fn add(&mut self, title: &str, text: String) {
        self.add_revised(title, None, text);
    }

    /// Adds an article with the date of its revision; without one, in the first half of 2026.
    fn add_revised(&mut self, title: &str, revised: Option<Date>, text: String) {
        let number = self.documents.len();
        let month = u8::try_from(number * 5 % 6 + 1).unwrap_or(1);
        let day = u8::try_from(number * 11 % 28 + 1).unwrap_or(1);
        self.add_dated(title, revised.or(Date::new(2026, month, day)), text);
    }

    fn add_dated(&mut self, title: &str, date: Option<Date>, text: String) {
        self.push(Document {
            path: slug(title),
            title: title.to_owned(),
            author: Some(AUTHOR.to_owned()),
            date,
            text,
            ..Document::default()
        });
    }
}

/// Returns the title in lower case, with `-` in place of spaces and signs.
fn slug(title: &str) -> String {
    let title = title.to_lowercase();
    let words = title.split(|character: char| !character.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests;
