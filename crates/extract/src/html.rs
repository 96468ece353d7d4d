//! Text of HTML pages: the readable article, or everything that a reader sees.

mod elements;
mod lines;
mod metadata;
mod scan;
mod style;
mod tree;

use std::panic::{AssertUnwindSafe, catch_unwind};

use dom_smoothie::{Config, Readability};
use tollgate_types::Date;

use crate::Draft;
use scan::Scan;

/// Maximum size of the visible HTML in which an article is sought, in bytes. The search reads each
/// element several times.
const MAX_ARTICLE_BYTES: usize = 3 << 20;
/// Maximum number of elements of a page in which an article is sought.
const MAX_ARTICLE_ELEMENTS: usize = 30_000;
/// Minimum length of the text of an article, in bytes.
const MIN_ARTICLE_BYTES: usize = 500;
/// Minimum share of an article in the text of its page: one in this number. A smaller one is
/// probably not the content.
const MIN_ARTICLE_SHARE: usize = 5;

/// Part of a page that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The article, if the page has one.
    Article,
    Whole,
}

pub(crate) fn draft(html: &str, today: Date) -> Draft {
    draft_of(html, today, Reading::Article)
}

pub(crate) fn draft_of(html: &str, today: Date, reading: Reading) -> Draft {
    let Scan {
        visible,
        elements,
        text,
        heading,
        metadata,
        has_hidden_text,
    } = scan::scan(html);
    let is_small = visible.len() <= MAX_ARTICLE_BYTES && elements <= MAX_ARTICLE_ELEMENTS;
    let article = match reading {
        Reading::Article if is_small => article(&visible, text.len()),
        Reading::Article | Reading::Whole => None,
    };
    let found = metadata.read(today);
    Draft {
        title: found.title.or(heading).unwrap_or_default(),
        author: found.author,
        date: found.date,
        language: found.language,
        canonical_url: found.canonical_url,
        text: article.unwrap_or(text),
        has_hidden_text,
    }
}

/// Returns the text of the article of a page; `None` if it has none.
fn article(visible: &str, page_bytes: usize) -> Option<String> {
    let config = Config {
        disable_json_ld: true,
        ..Config::default()
    };
    let parse = || Readability::new(visible, None, Some(config)).ok()?.parse().ok();
    let article = catch_unwind(AssertUnwindSafe(parse)).ok().flatten()?;
    let text = scan::scan(&article.content).text;
    (text.len() >= MIN_ARTICLE_BYTES && text.len() >= page_bytes / MIN_ARTICLE_SHARE).then_some(text)
}
