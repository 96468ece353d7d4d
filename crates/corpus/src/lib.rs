//! Full-text search in local document collections.
//!
//! A [`Corpus`] is the index of one folder, or the built-in corpus `demo`. The unit of an index is
//! a passage of about 250 words, ranked by BM25; hits are documents. Indexes are built in new
//! folders and replaced by rename, so searches continue on the old index. HTML and PDF files are
//! not read.

mod analyzer;
mod backend;
mod builder;
mod changes;
mod collector;
mod corpus;
mod demo;
mod document;
mod error;
mod folder;
mod generations;
mod location;
mod manifest;
mod passages;
mod scan;
mod schema;
mod sites;
mod snapshot;
mod snippet;

#[cfg(test)]
mod tests;

pub use corpus::{Corpus, CorpusSettings, Progress, Stats, Status};
pub use demo::{Contradiction, Fact, contradictions, dates, demo, facts};
pub use error::CorpusError;
pub use scan::Skipped;
