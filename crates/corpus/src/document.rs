//! Documents, and how files contain them.

mod json;
mod markdown;

use std::path::Path;

use tollgate_types::Date;

/// Maximum length of a title or author, in characters.
const MAX_NAME_CHARS: usize = 300;
/// Maximum length of the URL of a document, in bytes.
const MAX_URL_BYTES: usize = 2_000;

/// A document of a corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// Path of the file relative to the folder, with `/` between its parts. A document of a file
    /// with several has its number as the last part.
    pub path: String,
    /// URL that the document states; its location in the corpus otherwise.
    pub url: Option<String>,
    pub title: String,
    pub author: Option<String>,
    pub date: Option<Date>,
    /// Text without markup.
    pub text: String,
}

/// Formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Markdown,
    /// One document or an array of documents.
    Json,
    /// One document a line.
    JsonLines,
}

impl Format {
    /// Returns the format of a file by its extension; `None` if it is not supported.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "txt" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

/// The content of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub documents: Vec<Document>,
    /// Documents that are malformed or have no text.
    pub malformed: u64,
}

impl Parsed {
    fn push(&mut self, document: Option<Document>) {
        match document.map(clean) {
            Some(document) if !document.text.trim().is_empty() => self.documents.push(document),
            _ => self.malformed += 1,
        }
    }
}

/// Parses a file. Returns `None` if it is binary: not UTF-8, or with a NUL character.
pub(crate) fn parse(path: &str, format: Format, bytes: &[u8]) -> Option<Parsed> {
    let content = std::str::from_utf8(bytes).ok()?;
    if content.contains('\0') {
        return None;
    }
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let mut parsed = Parsed::default();
    match format {
        Format::Text => parsed.push(Some(plain(path, content))),
        Format::Markdown => parsed.push(Some(markdown::parse(path, content))),
        Format::Json => json::parse(path, content, &mut parsed),
        Format::JsonLines => json::parse_lines(path, content, &mut parsed),
    }
    Some(parsed)
}

/// Reads a text file. A short first line before an empty one is the title.
fn plain(path: &str, content: &str) -> Document {
    let mut lines = content.trim_start().lines();
    let first = lines.next().unwrap_or_default().trim();
    let has_title = lines.next().is_some_and(|line| line.trim().is_empty()) && first.len() <= MAX_NAME_CHARS;
    Document {
        path: path.to_owned(),
        title: if has_title {
            first.to_owned()
        } else {
            file_title(path)
        },
        text: content.to_owned(),
        ..Document::default()
    }
}

/// Returns the file name without its extension, as a title.
fn file_title(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.replace(['_', '-'], " ")
}

/// Replaces control characters and limits the fields that are not the text.
fn clean(document: Document) -> Document {
    let name = |name: &str| {
        let words: Vec<&str> = name
            .split(|c: char| c.is_whitespace() || c.is_control())
            .collect();
        let joined = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        joined.chars().take(MAX_NAME_CHARS).collect::<String>()
    };
    Document {
        url: document.url.filter(|url| is_web_url(url)),
        title: name(&document.title),
        author: document
            .author
            .map(|author| name(&author))
            .filter(|author| !author.is_empty()),
        text: clean_text(&document.text),
        ..document
    }
}

/// Replaces line ends by `\n` and other control characters by spaces.
fn clean_text(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let clean = |character: char| match character {
        '\n' | '\t' => character,
        '\r' => '\n',
        _ if character.is_control() => ' ',
        _ => character,
    };
    text.trim().chars().map(clean).collect()
}

fn is_web_url(url: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    url.len() <= MAX_URL_BYTES
        && !url.chars().any(|c| c.is_whitespace() || c.is_control())
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
