//! Similarity of sentences by their terms.

use crate::figures::support::{dates, has_date, has_number, numbers, year_of};
use crate::figures::{Figure, figures};
use crate::months::month_of;
use crate::simhash::hash;
use crate::words::terms;

/// A sentence, prepared for comparisons.
pub(super) struct Profile {
    /// Hashes of the terms without figures, sorted, without repetition.
    pub(super) terms: Vec<u64>,
    /// Hashes of the terms with a capital letter, sorted, without repetition.
    names: Vec<u64>,
    pub(super) figures: Vec<Figure>,
}

impl Profile {
    pub(super) fn new(text: &str) -> Self {
        let is_figure = |term: &str| term.contains(|c: char| c.is_ascii_digit()) || month_of(term).is_some();
        let terms = terms(text);
        let terms = term_set(terms.iter().map(String::as_str).filter(|term| !is_figure(term)));
        let capitalized = text
            .split_whitespace()
            .filter(|word| word.starts_with(char::is_uppercase));
        Self {
            terms,
            names: terms_of(&capitalized.collect::<Vec<&str>>().join(" ")),
            figures: figures(text),
        }
    }

    /// Returns the share of common terms among all terms, 0 to 1.
    pub(super) fn similarity(&self, other: &Profile) -> f32 {
        jaccard(&self.terms, &other.terms)
    }

    /// Whether both state the same: most terms are common, and so are all figures.
    pub(super) fn agrees(&self, other: &Profile, min_similarity: f32) -> bool {
        self.similarity(other) >= min_similarity && self.has_figures_of(other) && other.has_figures_of(self)
    }

    fn has_figures_of(&self, other: &Profile) -> bool {
        other.figures.iter().all(|figure| match figure {
            Figure::Number(number) => has_number(number, &self.figures),
            Figure::Date(date) => has_date(date, &self.figures),
            Figure::Code(_) | Figure::Name(_) => true,
        })
    }

    /// Whether both are about the same subject, with different figures of the same kind.
    pub(super) fn contradicts(&self, other: &Profile) -> bool {
        let common = common(&self.terms, &other.terms);
        let fewer = self.terms.len().min(other.terms.len());
        let is_same_subject = common >= 2 && common * 10 >= fewer * 6 && self.similarity(other) >= 0.4;
        // "Storm Agda" and "Storm Clio" are different subjects.
        let has_own_name =
            |one: &Profile, two: &Profile| self::common(&one.names, &two.names) < one.names.len();
        if !is_same_subject || (has_own_name(self, other) && has_own_name(other, self)) {
            return false;
        }
        let (times, amounts) = (self.differs_in_times(other), self.differs_in_amounts(other));
        // Different amounts of different years do not contradict each other.
        matches!((times, amounts), (true, None) | (false, Some(true)))
    }

    /// Whether both have times, and no time of one is compatible with the other.
    fn differs_in_times(&self, other: &Profile) -> bool {
        let years = |profile: &Profile| -> Vec<u16> {
            let plain = numbers(&profile.figures).filter_map(year_of);
            plain
                .chain(dates(&profile.figures).filter_map(|date| date.year))
                .collect()
        };
        let (ours, theirs) = (years(self), years(other));
        let has_other_years =
            !ours.is_empty() && !theirs.is_empty() && !ours.iter().any(|year| theirs.contains(year));
        let mut days = dates(&self.figures).peekable();
        let has_days = days.peek().is_some() && dates(&other.figures).next().is_some();
        has_other_years || (has_days && !days.any(|date| has_date(date, &other.figures)))
    }

    /// Returns whether one amount differs from those with the same unit; `None` if no units are
    /// common. Several different amounts are those of another time.
    fn differs_in_amounts(&self, other: &Profile) -> Option<bool> {
        let mut is_comparable = false;
        let mut differences = 0;
        for number in numbers(&self.figures).filter(|number| year_of(number).is_none()) {
            let same =
                numbers(&other.figures).filter(|other| other.unit == number.unit && year_of(other).is_none());
            if same.count() > 0 {
                is_comparable = true;
                differences += usize::from(!has_number(number, &other.figures));
            }
        }
        is_comparable.then_some(differences == 1)
    }
}

/// Returns the hashes of the terms of a text, sorted, without repetition.
pub(super) fn terms_of(text: &str) -> Vec<u64> {
    term_set(terms(text).iter().map(String::as_str))
}

fn term_set<'t>(terms: impl Iterator<Item = &'t str>) -> Vec<u64> {
    let mut set: Vec<u64> = terms.map(|term| hash(term.as_bytes())).collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// Returns the number of common elements of two sorted sets.
pub(super) fn common(one: &[u64], two: &[u64]) -> usize {
    let (small, large) = if one.len() <= two.len() {
        (one, two)
    } else {
        (two, one)
    };
    small
        .iter()
        .filter(|term| large.binary_search(term).is_ok())
        .count()
}

/// Returns the share of common elements among all elements; 0 for two empty sets.
pub(super) fn jaccard(one: &[u64], two: &[u64]) -> f32 {
    let common = common(one, two);
    let all = one.len() + two.len() - common;
    if all == 0 { 0.0 } else { common as f32 / all as f32 }
}
