//! The schema of an index, and the passages in it.

use tantivy::directory::MmapDirectory;
use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::{Index, IndexReader, ReloadPolicy, TantivyDocument};
use tollgate_types::Date;

use crate::analyzer::{ANALYZER, analyzer};
use crate::document::Document;
use crate::error::CorpusError;
use crate::location;
use crate::passages::passages;

/// Names of the columns that searches read.
pub(crate) const URL: &str = "url";
pub(crate) const DOCUMENT: &str = "document";
pub(crate) const DATE: &str = "date";

/// Fields of a passage. Title, author and date are those of its document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub url: Field,
    pub title: Field,
    pub author: Field,
    /// A number such as 20240229; missing if the document has no date.
    pub date: Field,
    /// Number of the document in this index.
    pub document: Field,
    /// Number of the passage in its document.
    pub ordinal: Field,
    pub text: Field,
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = TextFieldIndexing::default()
        .set_tokenizer(ANALYZER)
        .set_index_option(IndexRecordOption::WithFreqs);
    let words = TextOptions::default().set_indexing_options(words).set_stored();
    let fields = Fields {
        url: schema.add_text_field(URL, STRING | STORED | FAST),
        title: schema.add_text_field("title", words.clone()),
        author: schema.add_text_field("author", STORED),
        date: schema.add_u64_field(DATE, STORED | FAST),
        document: schema.add_u64_field(DOCUMENT, STORED | FAST),
        ordinal: schema.add_u64_field("ordinal", STORED),
        text: schema.add_text_field("text", words),
    };
    (schema.build(), fields)
}

/// Creates an index in an empty folder, or in memory without one.
pub(crate) fn create(folder: Option<&std::path::Path>) -> Result<(Index, Fields), CorpusError> {
    let (schema, fields) = schema();
    let index = match folder {
        Some(folder) => Index::create_in_dir(folder, schema)?,
        None => Index::create_in_ram(schema),
    };
    index.tokenizers().register(ANALYZER, analyzer());
    Ok((index, fields))
}

/// Opens the index in a folder. Returns an error if its schema is another one.
pub(crate) fn open(folder: &std::path::Path) -> Result<(Index, Fields), CorpusError> {
    let (schema, fields) = schema();
    let directory = MmapDirectory::open(folder).map_err(|error| CorpusError::Index(error.to_string()))?;
    let index = Index::open(directory)?;
    if index.schema() != schema {
        return Err(CorpusError::Index("the schema is of another version".to_owned()));
    }
    index.tokenizers().register(ANALYZER, analyzer());
    Ok((index, fields))
}

/// Returns a reader that stays on the current state of the index.
pub(crate) fn reader(index: &Index) -> Result<IndexReader, CorpusError> {
    Ok(index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .try_into()?)
}

/// Returns the passages of a document. Their texts in order are the text of the document.
pub(crate) fn entries(
    fields: Fields,
    prefix: &str,
    number: u64,
    document: &Document,
) -> impl Iterator<Item = TantivyDocument> {
    let url = document
        .url
        .clone()
        .unwrap_or_else(|| location::url(prefix, &document.path));
    let ranges = passages(&document.text);
    (0_u64..).zip(ranges).map(move |(ordinal, range)| {
        let mut entry = TantivyDocument::new();
        entry.add_text(fields.url, &url);
        entry.add_text(fields.title, &document.title);
        if let Some(author) = &document.author {
            entry.add_text(fields.author, author);
        }
        if let Some(date) = document.date {
            entry.add_u64(fields.date, date_number(date));
        }
        entry.add_u64(fields.document, number);
        entry.add_u64(fields.ordinal, ordinal);
        entry.add_text(fields.text, &document.text[range]);
        entry
    })
}

/// Returns the date as a number whose digits are `YYYYMMDD`.
pub(crate) fn date_number(date: Date) -> u64 {
    (u64::from(date.year()) * 100 + u64::from(date.month())) * 100 + u64::from(date.day())
}

/// Stored fields of a passage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    pub url: String,
    pub title: String,
    pub author: Option<String>,
    pub date: Option<Date>,
    pub document: u64,
    pub ordinal: u64,
    pub text: String,
}

impl Passage {
    /// Reads the stored fields.
    pub fn of(fields: Fields, entry: &TantivyDocument) -> Self {
        let string = |field| {
            entry
                .get_first(field)
                .and_then(|value| value.as_str())
                .map(str::to_owned)
        };
        let number = |field| entry.get_first(field).and_then(|value| value.as_u64());
        Self {
            url: string(fields.url).unwrap_or_default(),
            title: string(fields.title).unwrap_or_default(),
            author: string(fields.author),
            date: number(fields.date).and_then(date_of),
            document: number(fields.document).unwrap_or(0),
            ordinal: number(fields.ordinal).unwrap_or(0),
            text: string(fields.text).unwrap_or_default(),
        }
    }
}

fn date_of(number: u64) -> Option<Date> {
    let year = u16::try_from(number / 10_000).ok()?;
    let month = u8::try_from(number / 100 % 100).ok()?;
    let day = u8::try_from(number % 100).ok()?;
    Date::new(year, month, day)
}
