//! Comparison of the figures of a claim with those of its quotes.

use super::{DateFigure, Figure, MAX_FIGURES, Number, figures};
use crate::fold::fold;
use crate::script::splits_word;

/// Relative difference of numbers that are equal apart from floating point.
const EPSILON: f64 = 1e-9;

/// Relative tolerance of an approximate number.
const APPROXIMATE_TOLERANCE: f64 = 0.05;

/// Returns the texts of the figures of a claim that no quote contains; empty if the quotes support
/// all of them. A number is supported by one that rounds to it and has the same unit, a date by one
/// with the same known parts, a code or a name by the same text. The first 1,000 figures of a claim
/// and of its quotes count.
pub fn unsupported(claim: &str, quotes: &[&str]) -> Vec<String> {
    let known = quotes
        .iter()
        .flat_map(|quote| figures(quote))
        .take(MAX_FIGURES)
        .collect();
    let folded = quotes.iter().map(|quote| fold(quote)).collect();
    let evidence = Evidence { known, folded };
    let claimed = figures(claim).into_iter().enumerate();
    let missing = claimed.filter(|(place, figure)| *place >= MAX_FIGURES || !evidence.supports(figure));
    missing.map(|(_, figure)| figure.text().to_owned()).collect()
}

/// Whether two texts disagree in a number with the same unit: neither has all numbers of the other.
pub(crate) fn has_number(number: &Number, others: &[Figure]) -> bool {
    numbers(others).any(|other| is_supported(number, other) || is_supported(other, number))
}

/// Whether two dates can be the same.
pub(crate) fn has_date(date: &DateFigure, others: &[Figure]) -> bool {
    dates(others).any(|other| {
        let agrees = |one: Option<u16>, two: Option<u16>| one.zip(two).is_none_or(|(one, two)| one == two);
        let days = agrees(date.day.map(u16::from), other.day.map(u16::from));
        agrees(date.year, other.year) && date.month == other.month && days
    })
}

/// Returns the numbers of figures.
pub(crate) fn numbers(figures: &[Figure]) -> impl Iterator<Item = &Number> {
    figures.iter().filter_map(|figure| match figure {
        Figure::Number(number) => Some(number),
        _ => None,
    })
}

/// Returns the dates of figures.
pub(crate) fn dates(figures: &[Figure]) -> impl Iterator<Item = &DateFigure> {
    figures.iter().filter_map(|figure| match figure {
        Figure::Date(date) => Some(date),
        _ => None,
    })
}

/// Returns the year of a number that can be one, such as 1987.
pub(crate) fn year_of(number: &Number) -> Option<u16> {
    let is_plain = number.unit.is_none() && !number.is_negative && number.text.len() == 4;
    let year = number.text.parse().ok().filter(|_| is_plain)?;
    (1000..=2199).contains(&year).then_some(year)
}

struct Evidence {
    known: Vec<Figure>,
    folded: Vec<String>,
}

impl Evidence {
    fn supports(&self, figure: &Figure) -> bool {
        match figure {
            Figure::Number(number) => {
                numbers(&self.known).any(|known| is_supported(number, known)) || self.has_year(number)
            }
            Figure::Date(date) => self.has_date(date),
            Figure::Code(text) | Figure::Name(text) => self.has_text(text) || self.known.contains(figure),
        }
    }

    fn has_year(&self, number: &Number) -> bool {
        let year = year_of(number);
        year.is_some() && dates(&self.known).any(|date| date.year == year)
    }

    /// Whether a date has the parts of the claim. Its year may be elsewhere in the quotes.
    fn has_date(&self, claimed: &DateFigure) -> bool {
        let has_number = |year: u16| numbers(&self.known).any(|number| year_of(number) == Some(year));
        dates(&self.known).any(|known| {
            let is_same = claimed.month == known.month && (claimed.day.is_none() || claimed.day == known.day);
            let is_swapped = (claimed.is_ambiguous || known.is_ambiguous)
                && claimed.day == Some(known.month)
                && known.day == Some(claimed.month);
            let has_year = claimed.year.is_none_or(|year| match known.year {
                Some(known) => known == year,
                None => has_number(year),
            });
            (is_same || is_swapped) && has_year
        })
    }

    /// Whether a quote contains a text as whole words, in normal form.
    fn has_text(&self, text: &str) -> bool {
        let text = fold(text);
        let text = text.trim_end_matches(['.', ',', ';', ':']);
        let is_whole = |quote: &str, start: usize| {
            let end = start + text.len();
            let last = |text: &str| text.chars().next_back();
            let first = |text: &str| text.chars().next();
            !splits_word(last(&quote[..start]), first(text)) && !splits_word(last(text), first(&quote[end..]))
        };
        let contains = |quote: &String| quote.match_indices(text).any(|(start, _)| is_whole(quote, start));
        text.is_empty() || self.folded.iter().any(contains)
    }
}

/// Whether a known number supports a claimed one: the known number rounds to it, in the same unit.
fn is_supported(claimed: &Number, known: &Number) -> bool {
    let has_unit = claimed.unit.is_none() || claimed.unit == known.unit;
    let has_sign = !claimed.is_negative || known.is_negative;
    let mut pairs = claimed
        .values
        .iter()
        .flat_map(|claim| known.values.iter().map(move |known| (claim, known)));
    has_unit
        && has_sign
        && pairs.any(|(claim, known)| {
            let difference = (claim.amount - known.amount).abs();
            let is_coarser = claim.step > known.step && claim.amount > 0.0;
            let rounding = if is_coarser { claim.step / 2.0 } else { 0.0 };
            let tolerance = if claimed.is_approximate {
                claim.amount * APPROXIMATE_TOLERANCE
            } else {
                0.0
            };
            difference <= rounding.max(tolerance) + claim.amount * EPSILON
        })
}
