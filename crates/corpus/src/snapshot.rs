//! A state of an index that does not change. Searches use it while the next one is built.

use std::path::Path;

use tantivy::collector::DocSetCollector;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, Index, IndexReader, IndexWriter, TantivyDocument, Term};
use tollgate_types::{Date, Timestamp};
use tollgate_upstream::search::{SearchDocument, SearchFilters, SearchHit, SearchQuery};

use crate::analyzer::query_words;
use crate::collector::Documents;
use crate::document::Document;
use crate::error::CorpusError;
use crate::location;
use crate::manifest::{FORMAT, Manifest};
use crate::scan::Skipped;
use crate::schema::{self, Fields, Passage, date_number};
use crate::sites::Sites;
use crate::snippet::snippet;

/// Factor of the score of words in titles.
const TITLE_BOOST: f32 = 2.0;
/// Maximum number of hits of a search.
const MAX_HITS: usize = 1_000;
/// Memory of the writer of an index in memory, in bytes; the smallest that is accepted.
const MEMORY_BYTES: usize = 15_000_000;

/// A state of an index.
pub(crate) struct Snapshot {
    reader: IndexReader,
    fields: Fields,
    prefix: String,
    pub documents: u64,
    pub passages: u64,
    pub skipped: Skipped,
    /// `None` for an index in memory.
    pub built_at: Option<Timestamp>,
}

impl Snapshot {
    /// Opens the index in a folder. Returns an error if it was built with another prefix or by
    /// another version of this crate.
    pub fn open(folder: &Path, prefix: &str) -> Result<Self, CorpusError> {
        let manifest = Manifest::read(folder)?;
        if manifest.format != FORMAT || manifest.prefix != prefix {
            return Err(CorpusError::Index(
                "the index was built with other settings".to_owned(),
            ));
        }
        let (index, fields) = schema::open(folder)?;
        Ok(Self {
            reader: schema::reader(&index)?,
            fields,
            prefix: manifest.prefix,
            documents: manifest.documents,
            passages: manifest.passages,
            skipped: manifest.skipped,
            built_at: Some(Timestamp::from_micros(manifest.built_at_micros)),
        })
    }

    /// Builds an index in memory.
    pub fn in_memory(prefix: &str, documents: &[Document]) -> Result<Self, CorpusError> {
        let (index, fields) = schema::create(None)?;
        let passages = fill(&index, fields, prefix, documents)?;
        Ok(Self {
            reader: schema::reader(&index)?,
            fields,
            prefix: prefix.to_owned(),
            documents: documents.len() as u64,
            passages,
            skipped: Skipped::default(),
            built_at: None,
        })
    }

    /// Returns the best hits. `today` is the reference of the maximum age.
    pub fn search(&self, query: &SearchQuery, today: Option<Date>) -> Result<Vec<SearchHit>, CorpusError> {
        let max_hits = usize::try_from(query.max_hits).unwrap_or(MAX_HITS).min(MAX_HITS);
        let words = query_words(&query.text);
        let dates = match query.filters.restricts_date() {
            true => match date_range(&query.filters, today) {
                Some(range) => Some(range),
                None => return Ok(Vec::new()),
            },
            false => None,
        };
        if max_hits == 0 || words.is_empty() {
            return Ok(Vec::new());
        }
        let collector = Documents {
            max_hits,
            dates,
            sites: Sites::of(&query.filters),
        };
        let searcher = self.reader.searcher();
        let best = searcher.search(&self.query(&words), &collector)?;
        let hits = best.into_iter().map(|best| {
            let passage = self.passage(&searcher, best.address)?;
            Ok(SearchHit {
                snippet: snippet(&passage.text, &words),
                url: passage.url,
                title: passage.title,
                date: passage.date,
                text: None,
                is_readable: true,
                is_date_filtered: dates.is_some(),
            })
        });
        hits.collect()
    }

    /// Returns the document at a URL; `None` if the index has no such URL. Reads only the index.
    pub fn read(&self, url: &str) -> Result<Option<SearchDocument>, CorpusError> {
        match self.read_verbatim(url)? {
            Some(document) => Ok(Some(document)),
            None => self.read_verbatim(&location::normalize(&self.prefix, url)),
        }
    }

    fn read_verbatim(&self, url: &str) -> Result<Option<SearchDocument>, CorpusError> {
        let term = Term::from_field_text(self.fields.url, url);
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        let searcher = self.reader.searcher();
        let addresses = searcher.search(&query, &DocSetCollector)?;
        let passages = addresses
            .into_iter()
            .map(|address| self.passage(&searcher, address));
        let mut passages = passages.collect::<Result<Vec<Passage>, CorpusError>>()?;
        passages.sort_unstable_by_key(|passage| (passage.document, passage.ordinal));
        // Several documents may state the same URL; the first one is returned.
        let Some(first) = passages.first().cloned() else {
            return Ok(None);
        };
        let same = passages
            .iter()
            .filter(|passage| passage.document == first.document);
        Ok(Some(SearchDocument {
            url: first.url,
            title: first.title,
            author: first.author,
            date: first.date,
            text: same.map(|passage| passage.text.as_str()).collect(),
        }))
    }

    fn passage(&self, searcher: &tantivy::Searcher, address: DocAddress) -> Result<Passage, CorpusError> {
        let entry: TantivyDocument = searcher.doc(address)?;
        Ok(Passage::of(self.fields, &entry))
    }

    /// Returns a query for passages with any of the words.
    fn query(&self, words: &[String]) -> BooleanQuery {
        let term = |field, word: &String| -> Box<dyn Query> {
            let term = Term::from_field_text(field, word);
            Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
        };
        let clauses = words.iter().flat_map(|word| {
            let title: Box<dyn Query> = Box::new(BoostQuery::new(term(self.fields.title, word), TITLE_BOOST));
            [
                (Occur::Should, title),
                (Occur::Should, term(self.fields.text, word)),
            ]
        });
        BooleanQuery::new(clauses.collect())
    }
}

/// Adds the documents. Returns the number of passages.
fn fill(index: &Index, fields: Fields, prefix: &str, documents: &[Document]) -> Result<u64, CorpusError> {
    let mut writer: IndexWriter<TantivyDocument> = index.writer_with_num_threads(1, MEMORY_BYTES)?;
    let mut passages = 0;
    for (number, document) in (0_u64..).zip(documents) {
        for entry in schema::entries(fields, prefix, number, document) {
            writer.add_document(entry)?;
            passages += 1;
        }
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    Ok(passages)
}

/// Returns the first and the last permitted date; `None` if no date is permitted.
fn date_range(filters: &SearchFilters, today: Option<Date>) -> Option<(u64, u64)> {
    let recent = match (filters.recency, today) {
        (Some(recency), Some(today)) => Some(today.minus_days(recency.days())),
        (Some(_), None) => return None,
        (None, _) => None,
    };
    let first = filters.after.max(recent).map_or(0, date_number);
    let last = filters.before.map_or(u64::MAX, date_number);
    (first <= last).then_some((first, last))
}
