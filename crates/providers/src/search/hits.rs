//! Results of all kinds as hits of the port.

use serde_json::Value;
use tollgate_evidence::dates::parse_date;
use tollgate_evidence::text::clean;
use tollgate_types::Date;
use tollgate_upstream::{MAX_HIT_TEXT_CHARS, SearchHit};
use url::Url;

use super::plain::plain_text;

/// Maximum size of a URL, in bytes. Hits with longer URLs are dropped.
const MAX_URL_BYTES: usize = 2_048;
/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 300;
/// Maximum length of a snippet, in characters.
const MAX_SNIPPET_CHARS: usize = 2_000;

/// A result as the service wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) url: String,
    /// May contain HTML tags and entities, as `snippet`.
    pub(super) title: String,
    pub(super) snippet: String,
    /// Date in any format, absolute or relative.
    pub(super) date: Option<String>,
    /// Text of the page, without HTML.
    pub(super) text: Option<String>,
}

/// Names of the fields of results, for services whose results are objects in an array.
pub(super) struct Fields {
    /// JSON pointer of the array.
    pub(super) list: &'static str,
    pub(super) url: &'static str,
    pub(super) title: &'static str,
    /// Strings, or arrays of strings, that form the snippet together.
    pub(super) snippets: &'static [&'static str],
    pub(super) date: &'static str,
    /// Empty if the service returns no texts.
    pub(super) text: &'static str,
}

/// Returns the results of a response; `None` if it has no array of results. Results without a URL
/// are omitted.
pub(super) fn listed(body: &Value, fields: &Fields) -> Option<Vec<Found>> {
    let list = body.pointer(fields.list)?.as_array()?;
    let string = |result: &Value, name: &str| Some(result.get(name)?.as_str()?.to_owned());
    let found = list.iter().filter_map(|result| {
        let snippets: Vec<&str> = fields
            .snippets
            .iter()
            .flat_map(|name| strings(result.get(name)))
            .collect();
        Some(Found {
            url: string(result, fields.url)?,
            title: string(result, fields.title).unwrap_or_default(),
            snippet: snippets.join(" … "),
            date: string(result, fields.date),
            text: string(result, fields.text),
        })
    });
    Some(found.collect())
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) if !text.trim().is_empty() => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Converts results to hits, at most `max_hits`. Drops results that are not http or https pages.
pub(super) fn hits(found: Vec<Found>, max_hits: u32, is_date_filtered: bool, today: Date) -> Vec<SearchHit> {
    let pages = found.into_iter().filter(|found| is_page(&found.url));
    let pages = pages.take(usize::try_from(max_hits).unwrap_or(usize::MAX));
    pages
        .map(|found| SearchHit {
            url: found.url.trim().to_owned(),
            title: shortened(plain_text(&found.title), MAX_TITLE_CHARS),
            snippet: shortened(plain_text(&found.snippet), MAX_SNIPPET_CHARS),
            date: found.date.and_then(|date| date_of(&date, today)),
            text: found.text.and_then(|text| text_of(&text)),
            is_readable: false,
            is_date_filtered,
        })
        .collect()
}

fn is_page(url: &str) -> bool {
    let url = url.trim();
    let parsed = Url::parse(url).ok().filter(|_| url.len() <= MAX_URL_BYTES);
    parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn date_of(text: &str, today: Date) -> Option<Date> {
    Date::parse(text.trim()).or_else(|| parse_date(text, today))
}

fn text_of(text: &str) -> Option<String> {
    let text = clean(text);
    (!text.is_empty()).then(|| shortened(text, MAX_HIT_TEXT_CHARS))
}

fn shortened(mut text: String, max_chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
    }
    text
}
