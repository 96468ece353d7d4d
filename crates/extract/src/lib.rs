//! Extracts the visible text of pages. The content is hostile, so only the command `tollgate
//! extract` calls this crate, in a process with little memory and no access to anything else.
//!
//! Suggested reading order: [`extract`], `kind`, `charset`, `html`, `markdown`, `json`, `pdf`,
//! [`mod@serve`].

mod charset;
mod html;
mod json;
mod kind;
mod markdown;
mod pdf;
mod serve;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_evidence::text::{MAX_SOURCE_CHARS, clean};
use tollgate_types::Date;
use tollgate_upstream::{ExtractError, ExtractedPage, PageHead};
use url::Url;

use kind::Kind;
pub use serve::serve;

/// Maximum length of a title or author, in characters.
const MAX_NAME_CHARS: usize = 300;

/// Text and metadata of a page before their cleaning.
#[derive(Debug, Default)]
struct Draft {
    title: String,
    author: Option<String>,
    date: Option<Date>,
    language: Option<String>,
    /// Canonical URL, absolute or relative to the page.
    canonical_url: Option<String>,
    text: String,
    has_hidden_text: bool,
}

/// Extracts the visible text of a page.
///
/// # Errors
///
/// Returns the reason why the page has no text that can be used. Returns
/// [`ExtractError::Malformed`] if a parser panics.
pub fn extract(head: &PageHead, bytes: &[u8]) -> Result<ExtractedPage, ExtractError> {
    let drafted = catch_unwind(AssertUnwindSafe(|| draft(head, bytes)));
    let draft = drafted.unwrap_or(Err(ExtractError::Malformed))?;
    let text = clean(&draft.text);
    if !text.chars().any(char::is_alphanumeric) {
        return Err(ExtractError::NoText);
    }
    Ok(ExtractedPage {
        title: one_line(&draft.title),
        author: draft
            .author
            .as_deref()
            .map(one_line)
            .filter(|name| !name.is_empty()),
        date: draft.date.filter(|date| date.minus_days(1) <= head.today),
        language: draft.language.as_deref().and_then(language_tag),
        canonical_url: draft.canonical_url.and_then(|url| on_same_host(&head.url, &url)),
        // White space at the end of a cut text is removed.
        is_truncated: text.chars().count() + 2 >= MAX_SOURCE_CHARS,
        has_hidden_text: draft.has_hidden_text,
        text,
    })
}

fn draft(head: &PageHead, bytes: &[u8]) -> Result<Draft, ExtractError> {
    let kind = Kind::of(&head.media_type, bytes).ok_or(ExtractError::UnsupportedType)?;
    if kind == Kind::Pdf {
        return pdf::draft(bytes);
    }
    let text = charset::decode(bytes, head.charset.as_deref(), kind == Kind::Html);
    if kind::is_binary(&text) {
        return Err(ExtractError::UnsupportedType);
    }
    match kind.refined(&text) {
        Kind::Html => Ok(html::draft(&text, head.today)),
        Kind::Markdown => Ok(markdown::draft(&text, head.today)),
        Kind::Json => json::draft(&text),
        Kind::Text | Kind::Pdf => Ok(Draft {
            text,
            ..Draft::default()
        }),
    }
}

/// Returns a text as one line of limited length, without invisible characters.
fn one_line(text: &str) -> String {
    // Longer texts are no names, and need not be cleaned.
    let text: String = text.chars().take(MAX_NAME_CHARS * 10).collect();
    let line = clean(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_NAME_CHARS).collect()
}

/// Returns a language tag in its usual form; `None` if it is none.
fn language_tag(text: &str) -> Option<String> {
    let tag = text.trim().split([',', ';', ' ']).next()?.replace('_', "-");
    let is_tag = (2..=35).contains(&tag.len())
        && tag.starts_with(|c: char| c.is_ascii_alphabetic())
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_tag.then_some(tag)
}

/// Resolves a URL that a page states for itself. `None` if it is on another host: a page could
/// state the URL of a page that it imitates.
fn on_same_host(page: &str, stated: &str) -> Option<String> {
    let page = Url::parse(page).ok()?;
    let mut stated = page.join(stated.trim()).ok()?;
    let host = |url: &Url| {
        url.host_str()
            .map(|host| host.trim_start_matches("www.").to_owned())
    };
    let is_plain = matches!(stated.scheme(), "http" | "https") && stated.username().is_empty();
    if !is_plain || host(&stated).is_none() || host(&stated) != host(&page) {
        return None;
    }
    stated.set_fragment(None);
    Some(stated.into())
}

#[cfg(test)]
mod tests;
