//! Composes articles from lists of phrases.

use std::collections::BTreeMap;

use tollgate_types::Date;

use super::world::Phrases;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];

/// An article in progress.
pub(super) struct Draft<'a> {
    phrases: Option<&'a BTreeMap<String, Vec<String>>>,
    /// Chooses the variants of the phrases.
    number: usize,
    values: BTreeMap<String, String>,
    text: String,
}

impl<'a> Draft<'a> {
    /// Starts an article of a kind. `number` counts the articles; neighbours use different phrases.
    pub fn new(phrases: &'a Phrases, kind: &str, number: usize) -> Self {
        Self {
            phrases: phrases.get(kind),
            number,
            values: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// Sets the value of a name in braces.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// Returns a variant of a list of phrases, with values in place of names. Empty if the kind has
    /// no such list.
    pub fn phrase(&self, list: &str) -> String {
        let variants = self
            .phrases
            .and_then(|lists| lists.get(list))
            .map_or(&[][..], Vec::as_slice);
        // Lists take turns at different paces, so that their combinations differ.
        let turn = match list.len() % 2 {
            0 => self.number,
            _ => self.number / 2 + list.len(),
        };
        let variant = turn % variants.len().max(1);
        variants
            .get(variant)
            .map(|template| fill(template, &self.values))
            .unwrap_or_default()
    }

    /// Adds a paragraph of the parts that are not empty.
    pub fn paragraph(&mut self, parts: &[&str]) -> &mut Self {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() {
            let separator = if self.text.is_empty() { "" } else { "\n\n" };
            self.text.push_str(separator);
            self.text.push_str(&parts.join(" "));
        }
        self
    }

    /// Adds a paragraph of one phrase.
    pub fn phrases(&mut self, list: &str) -> &mut Self {
        let phrase = self.phrase(list);
        self.paragraph(&[&phrase])
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Replaces names in braces. Unknown names stay.
fn fill(template: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}') {
            Some((name, end)) => {
                match values.get(name) {
                    Some(value) => text.push_str(value),
                    None => text.extend(["{", name, "}"]),
                }
                rest = end;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Formats a number with commas between thousands.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let is_thousand = place > 0 && (whole.len() - place).is_multiple_of(3);
        if is_thousand && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Formats a count with commas between thousands.
pub(super) fn count(value: u32) -> String {
    number(f64::from(value), 0)
}

/// Joins names as in "a, b and c".
pub(super) fn join(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Formats a date as in "12 May 2024".
pub(super) fn long_date(date: Date) -> String {
    let month = MONTHS
        .get(usize::from(date.month()).saturating_sub(1))
        .copied()
        .unwrap_or_default();
    format!("{} {month} {}", date.day(), date.year())
}

/// Returns "first" to "twelfth".
pub(super) fn ordinal(place: usize) -> &'static str {
    ORDINALS.get(place).copied().unwrap_or("last")
}

/// Puts the fitting article before a noun.
pub(super) fn with_article(noun: &str) -> String {
    let starts_with = |words: &[&str]| words.iter().any(|word| noun.starts_with(word));
    match () {
        () if starts_with(&["First Minister"]) => noun.to_owned(),
        () if starts_with(&["capital", "highest", "only", "main", "director"]) => format!("the {noun}"),
        () if starts_with(&["a", "e", "i", "o"]) => format!("an {noun}"),
        () => format!("a {noun}"),
    }
}

/// Returns the first sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Compares two figures, as in "4.2 per cent more than in 2018".
pub(super) fn comparison(before: f64, now: f64, year: u32) -> String {
    let percent = percent(before, now);
    match percent.abs() < 0.1 {
        true => format!("almost the same as in {year}"),
        false => {
            let direction = if percent > 0.0 { "more" } else { "less" };
            format!("{} per cent {direction} than in {year}", number(percent.abs(), 1))
        }
    }
}

/// Compares two figures, as in "rose by 4.2 per cent".
pub(super) fn movement(before: f64, now: f64) -> String {
    let percent = percent(before, now);
    match percent.abs() < 0.1 {
        true => "hardly changed".to_owned(),
        false => {
            let verb = if percent > 0.0 { "rose" } else { "fell" };
            format!("{verb} by {} per cent", number(percent.abs(), 1))
        }
    }
}

fn percent(before: f64, now: f64) -> f64 {
    if before == 0.0 {
        0.0
    } else {
        (now - before) / before * 100.0
    }
}

#[cfg(test)]
mod tests;
