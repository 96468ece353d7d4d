//! Results of the tools `search` and `fetch`.

use serde_json::Value;
use tollgate_evidence::dates::parse_date;
use tollgate_evidence::text::clean;
use tollgate_types::Date;
use tollgate_upstream::{SearchDocument, UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::search::plain_text;

/// Tool that returns `{results: [{id, title, url, text}]}`.
pub(super) const SEARCH: &str = "search";
/// Tool that returns `{id, title, text, url, metadata}`.
pub(super) const FETCH: &str = "fetch";

/// Maximum size of an id, in bytes. Results with longer ids are dropped.
const MAX_ID_BYTES: usize = 1_024;
/// Maximum size of a URL, in bytes.
const MAX_URL_BYTES: usize = 2_048;
/// Maximum length of titles and names, in characters.
const MAX_TITLE_CHARS: usize = 300;
/// Maximum length of a snippet, in characters.
const MAX_SNIPPET_CHARS: usize = 2_000;

/// A result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundDocument {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) snippet: String,
}

/// Returns the results of the tool `search`.
pub(super) fn results(result: &Value) -> Result<Vec<FoundDocument>, UpstreamError> {
    let content = content(result, SEARCH, "results")?;
    let list = content
        .get("results")
        .and_then(Value::as_array)
        .ok_or_else(|| UpstreamError::protocol("the tool `search` returned no array `results`"))?;
    let found = list.iter().filter_map(|result| {
        let id = match result.get("id")? {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return None,
        };
        let is_usable = !id.is_empty() && id.len() <= MAX_ID_BYTES;
        is_usable.then(|| FoundDocument {
            title: line(result.get("title"), MAX_TITLE_CHARS),
            snippet: line(result.get("text"), MAX_SNIPPET_CHARS),
            id,
        })
    });
    Ok(found.collect())
}

/// Returns the document of the tool `fetch`. Its URL is empty unless it is an http or https URL.
pub(super) fn document(result: &Value, today: Option<Date>) -> Result<SearchDocument, UpstreamError> {
    let content = content(result, FETCH, "text")?;
    let text = content
        .get("text")
        .and_then(Value::as_str)
        .ok_or_else(|| UpstreamError::protocol("the tool `fetch` returned no string `text`"))?;
    let metadata = |name: &str| content.get("metadata").and_then(|metadata| metadata.get(name));
    let date = ["date", "published", "published_at", "publishedDate"]
        .into_iter()
        .find_map(|name| metadata(name)?.as_str());
    let url = content.get("url").and_then(Value::as_str).unwrap_or_default();
    let author = line(metadata("author"), MAX_TITLE_CHARS);
    Ok(SearchDocument {
        url: if is_page(url) {
            url.to_owned()
        } else {
            String::new()
        },
        title: line(content.get("title"), MAX_TITLE_CHARS),
        author: (!author.is_empty()).then_some(author),
        date: date.and_then(|date| Date::parse(date).or_else(|| parse_date(date, today?))),
        text: clean(text),
    })
}

/// Returns the object that a tool returned: its structured content if that has the member `key`,
/// else the first text content that is a JSON object.
fn content(result: &Value, tool: &str, key: &str) -> Result<Value, UpstreamError> {
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        let detail = format!("the tool `{tool}` of the MCP server reports an error");
        return Err(UpstreamError::new(
            UpstreamErrorKind::Unavailable,
            UpstreamCause::Status,
            detail,
        ));
    }
    let structured = result.get("structuredContent");
    if let Some(structured) = structured.filter(|content| content.get(key).is_some()) {
        return Ok(structured.clone());
    }
    let parts = result.get("content").and_then(Value::as_array);
    let object = parts.into_iter().flatten().find_map(|part| {
        let text = part.get("text")?.as_str()?;
        serde_json::from_str::<Value>(text).ok().filter(Value::is_object)
    });
    object.ok_or_else(|| {
        let detail = format!("the tool `{tool}` of the MCP server did not return a JSON object");
        UpstreamError::protocol(detail)
    })
}

/// Returns a text on one line, without markup, and cut to `max_chars`.
fn line(value: Option<&Value>, max_chars: usize) -> String {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    // The text may be a whole document.
    let beginning: String = text.chars().take(max_chars * 4).collect();
    plain_text(&beginning).chars().take(max_chars).collect()
}

fn is_page(url: &str) -> bool {
    let parsed = url::Url::parse(url).ok().filter(|_| url.len() <= MAX_URL_BYTES);
    parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Decodes `%XX`; `None` if the result is not UTF-8 or too long.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| text.len() <= MAX_ID_BYTES)
}
