//! Looks for the quotes of statements in the pages that a provider cites.

use std::collections::BTreeSet;

use tollgate_evidence::bm25::Bm25;
use tollgate_evidence::figures::unsupported;
use tollgate_evidence::injection::is_suspected;
use tollgate_evidence::quote::{MAX_QUOTE_CHARS, MIN_QUOTE_CHARS, MatchKind, QuoteFinder};
use tollgate_evidence::sentences::{Span, sentences};
use tollgate_evidence::text::CharText;
use tollgate_evidence::words::terms;

/// Number of passages of a page that are compared with a statement.
const MAX_CANDIDATES: usize = 8;
/// Part of the words of a statement that its quote must contain, in percent.
const MIN_COMMON_PERCENT: usize = 50;

/// A passage of a page that supports a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) text: String,
    /// Place in the stored text, in code points.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) matched: &'static str,
}

/// A page, prepared for several statements.
pub(super) struct Page<'t> {
    text: &'t CharText<'t>,
    finder: QuoteFinder<'t>,
    /// Sentences, and each pair of neighbours.
    passages: Vec<Span>,
    ranking: Bm25,
}

impl<'t> Page<'t> {
    pub(super) fn new(text: &'t CharText<'t>) -> Self {
        let single = sentences(text.as_str());
        let pairs = single.windows(2).filter_map(|pair| match pair {
            [first, second] => Some(Span {
                start: first.start,
                end: second.end,
            }),
            _ => None,
        });
        let passages: Vec<Span> = single.iter().copied().chain(pairs).collect();
        let passages: Vec<Span> = passages
            .into_iter()
            .filter(|span| (MIN_QUOTE_CHARS..=MAX_QUOTE_CHARS).contains(&span.end.saturating_sub(span.start)))
            .collect();
        let texts = passages.iter().filter_map(|span| text.span(*span));
        Self {
            ranking: Bm25::new(texts),
            finder: QuoteFinder::new(text),
            passages,
            text,
        }
    }

    /// Returns a passage that contains the statement or the provider's excerpt, else the best
    /// passage with the figures, the names and half of the words of the statement.
    pub(super) fn quote(&self, statement: &str, excerpt: Option<&str>) -> Option<Quote> {
        let own = [Some(statement), excerpt].into_iter().flatten();
        let own = own.filter_map(|text| self.finder.find(text).map(|found| (found.span, found.kind)));
        let ranked = self.ranking.rank(statement, MAX_CANDIDATES);
        let ranked = ranked
            .into_iter()
            .filter_map(|(place, _)| Some((*self.passages.get(place)?, MatchKind::Exact)));
        let words: BTreeSet<String> = terms(statement).into_iter().collect();
        let mut candidates = own.chain(ranked);
        candidates.find_map(|(span, matched)| {
            let quote = self.text.span(span)?;
            supports(quote, statement, &words).then(|| Quote {
                text: quote.to_owned(),
                start: span.start as u64,
                end: span.end as u64,
                matched: matched.as_str(),
            })
        })
    }
}

fn supports(quote: &str, statement: &str, words: &BTreeSet<String>) -> bool {
    let quoted: BTreeSet<String> = terms(quote).into_iter().collect();
    let common = words.intersection(&quoted).count();
    !words.is_empty()
        && common * 100 >= words.len() * MIN_COMMON_PERCENT
        && unsupported(statement, &[quote]).is_empty()
        && !is_suspected(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The harbour of Lorn is old. Ferries sail to Lorn on 212 days of the year. \
                        In winter, the wind Éole often blows from the north. The fare is 5 €.";

    fn quote(statement: &str, excerpt: Option<&str>) -> Option<(String, &'static str)> {
        let text = CharText::new(TEXT);
        let page = Page::new(&text);
        let quote = page.quote(statement, excerpt)?;
        let slice = text.slice(quote.start as usize, quote.end as usize);
        assert_eq!(slice, Some(&*quote.text));
        Some((quote.text, quote.matched))
    }

    #[test]
    fn statements_are_found_by_their_words_and_figures() {
        let expected = "Ferries sail to Lorn on 212 days of the year.";
        for statement in [
            expected,
            "To Lorn, ferries sail on 212 days.",
            "Ferries to Lorn: 212 days",
        ] {
            let (found, matched) = quote(statement, None).unwrap();
            assert_eq!((&*found, matched), (expected, "exact"), "{statement}");
        }
        for wrong in [
            "Ferries sail to Lorn on 213 days of the year.",
            "Airplanes land near the castle.",
            "",
            "The",
        ] {
            assert_eq!(quote(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn an_excerpt_of_the_provider_is_looked_up() {
        let excerpt = "in winter, the wind “Éole” often blows";
        let found = quote("The wind Éole blows often.", Some(excerpt)).unwrap();
        assert!(found.0.contains("Éole often blows"), "{found:?}");
        let foreign = quote(
            "The wind Éole blows often.",
            Some("this text is nowhere on the page"),
        );
        assert!(foreign.is_some(), "the page itself supports the statement");
    }
}
