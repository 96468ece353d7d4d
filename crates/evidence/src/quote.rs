//! Places of quotes in a source.

mod agreement;
mod distance;
mod fuzzy;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::fold::{Folded, fold};
use crate::script::splits_word;
use crate::text::{CharText, Span};

/// Minimum length of a quote, in code points.
pub const MIN_QUOTE_CHARS: usize = 20;

/// Maximum length of a quote, in code points.
pub const MAX_QUOTE_CHARS: usize = 600;

/// How a quote matches its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// Equal, character by character.
    Exact,
    /// Equal apart from Unicode forms, case, white space, quote marks and dashes.
    Normalized,
    /// Levenshtein similarity of at least 0.90 in normal form, with the same numbers and negations.
    Fuzzy,
}

impl MatchKind {
    /// Returns the name used in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Normalized => "normalized",
            MatchKind::Fuzzy => "fuzzy",
        }
    }
}

/// A place of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteMatch {
    /// Range in the source. Its text is the quote to show.
    pub span: Span,
    /// How the quote of the caller matches this text.
    pub kind: MatchKind,
}

/// Finds a quote of 20 to 600 code points in a source. [`QuoteFinder`] is faster for several
/// quotes.
pub fn find_quote(text: &CharText, quote: &str) -> Option<QuoteMatch> {
    QuoteFinder::new(text).find(quote)
}

/// Finds quotes in one source. The normal form of the source is computed once, when a quote needs
/// it.
#[derive(Debug)]
pub struct QuoteFinder<'t> {
    text: &'t CharText<'t>,
    folded: OnceLock<Folded>,
}

impl<'t> QuoteFinder<'t> {
    /// Creates a finder of quotes in a source.
    pub const fn new(text: &'t CharText<'t>) -> Self {
        Self {
            text,
            folded: OnceLock::new(),
        }
    }

    /// Returns the first exact place of a quote, else the first equal one in normal form, else the
    /// most similar one. Matches begin and end between words, and do not divide numbers. `None` if
    /// the quote is not in the source, or is shorter than 20 or longer than 600 code points.
    pub fn find(&self, quote: &str) -> Option<QuoteMatch> {
        let quote = quote.trim();
        let length = quote.chars().take(MAX_QUOTE_CHARS + 1).count();
        if !(MIN_QUOTE_CHARS..=MAX_QUOTE_CHARS).contains(&length) {
            return None;
        }
        self.find_exact(quote).or_else(|| {
            let quote = fold(quote);
            let quote = quote.trim_matches(['\'', ' ']);
            self.find_normalized(quote).or_else(|| self.find_fuzzy(quote))
        })
    }

    fn find_exact(&self, quote: &str) -> Option<QuoteMatch> {
        let text = self.text.as_str();
        let mut places = text
            .match_indices(quote)
            .map(|(start, _)| (start, start + quote.len()));
        let (start, end) = places.find(|&(start, end)| is_whole(text, start, end))?;
        let span = Span {
            start: self.text.char_of_byte(start),
            end: self.text.char_of_byte(end),
        };
        Some(QuoteMatch {
            span,
            kind: MatchKind::Exact,
        })
    }

    fn find_normalized(&self, quote: &str) -> Option<QuoteMatch> {
        if quote.is_empty() {
            return None;
        }
        let folded = self.folded();
        let length = quote.chars().count();
        let starts = folded
            .text
            .match_indices(quote)
            .filter(|&(start, _)| is_whole(&folded.text, start, start + quote.len()));
        let mut starts = starts.map(|(start, _)| folded.char_of_byte(start));
        let start = starts.find(|&start| folded.is_aligned(start, start + length))?;
        self.matched(start, start + length, MatchKind::Normalized)
    }

    fn find_fuzzy(&self, quote: &str) -> Option<QuoteMatch> {
        let (start, end) = fuzzy::find(self.folded(), quote)?;
        self.matched(start, end, MatchKind::Fuzzy)
    }

    fn matched(&self, start: usize, end: usize, kind: MatchKind) -> Option<QuoteMatch> {
        let (start, end) = self.folded().original(start, end)?;
        let span = Span { start, end };
        Some(QuoteMatch { span, kind })
    }

    fn folded(&self) -> &Folded {
        self.folded.get_or_init(|| Folded::new(self.text.as_str()))
    }
}

/// Whether a range in bytes begins and ends between words, and does not divide a number such as
/// 1.5 at its point.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let mut before = text[..start].chars().rev();
    let mut inside = text[start..end].chars();
    let mut after = text[end..].chars();
    let (first, last) = (inside.next(), inside.next_back());
    let (previous, next) = (before.next(), after.next());
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let is_point = |c: Option<char>| matches!(c, Some('.' | ','));
    let divides_start = is_digit(first) && is_point(previous) && is_digit(before.next());
    let divides_end = is_digit(last) && is_point(next) && is_digit(after.next());
    !splits_word(previous, first) && !splits_word(last, next) && !divides_start && !divides_end
}
