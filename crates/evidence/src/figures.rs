//! Figures of claims: numbers with units, dates, codes and quoted names, which the quotes of a
//! claim must contain.

mod number;
pub(crate) mod support;
#[cfg(test)]
mod tests;
mod units;

pub use number::Value;
pub use support::unsupported;

use crate::calendar::date_at;
use crate::lexer::{Kind, Token, prepare, tokens};

/// Maximum number of figures that are compared. Further ones of a claim count as unsupported.
const MAX_FIGURES: usize = 1_000;

/// Maximum length of a quoted name, in code points.
const MAX_NAME_CHARS: usize = 100;

/// Words that make a number approximate.
const APPROXIMATE: &str = " about around approximately roughly nearly almost some circa over under \
    ca etwa rund ungefähr fast knapp environ presque près unos unas aproximadamente casi alrededor cerca ";

/// A figure of a text. The text of each is in NFKC.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A number in digits or in an English word, with its unit.
    Number(Number),
    /// A date with a month.
    Date(DateFigure),
    /// A word of letters and digits such as "GPT4", or digits that are no number such as "1.2.3".
    Code(String),
    /// Text in quotation marks, without them.
    Name(String),
}

impl Figure {
    /// Returns the text of the figure.
    pub fn text(&self) -> &str {
        match self {
            Figure::Number(number) => &number.text,
            Figure::Date(date) => &date.text,
            Figure::Code(text) | Figure::Name(text) => text,
        }
    }
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Text with its unit.
    pub text: String,
    /// Readings of the digits, with the multiplier.
    pub values: Vec<Value>,
    /// Symbol of the unit, such as `%`, `km` or `EUR`.
    pub unit: Option<&'static str>,
    /// Whether a minus precedes the number.
    pub is_negative: bool,
    /// Whether a word such as "about" precedes the number.
    pub is_approximate: bool,
}

/// A date whose year or day may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFigure {
    /// Text of the date.
    pub text: String,
    /// Year, 1000 to 2199.
    pub year: Option<u16>,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day, 1 to 31.
    pub day: Option<u8>,
    /// Whether month and day may be exchanged, as in 03/05/2024.
    pub is_ambiguous: bool,
}

/// Returns the figures of a text in reading order; quoted names are last.
pub fn figures(text: &str) -> Vec<Figure> {
    let text = prepare(text);
    let tokens = tokens(&text);
    let mut figures = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (figure, length) = figure_at(&text, &tokens, at);
        at += length.max(1);
        if let Some(figure) = figure {
            share_unit(&mut figures, &figure, &tokens, at - length.max(1));
            figures.push(figure);
        }
    }
    figures.extend(names(&text).map(Figure::Name));
    figures
}

/// Returns the figure at a token and the number of its tokens.
fn figure_at(text: &str, tokens: &[Token], at: usize) -> (Option<Figure>, usize) {
    let token = tokens[at];
    if let Some((date, length)) = date_at(tokens, at) {
        let text = text[token.start..tokens[at + length - 1].end()].to_owned();
        let (year, month, day, is_ambiguous) = (date.year, date.month, date.day, date.is_ambiguous);
        let date = DateFigure {
            text,
            year,
            month,
            day,
            is_ambiguous,
        };
        return (Some(Figure::Date(date)), length);
    }
    let values = match token.kind {
        Kind::Number => number::values(token.text),
        Kind::Word => number::word_value(token.text).into_iter().collect(),
        Kind::Mark => return (None, 1),
    };
    let has_digits = token.text.contains(|c: char| c.is_ascii_digit());
    match (values.is_empty(), has_digits) {
        (true, true) => (Some(Figure::Code(token.text.to_owned())), 1),
        (true, false) => (None, 1),
        (false, _) => {
            let (number, length) = number_at(text, tokens, at, values);
            (Some(Figure::Number(number)), length)
        }
    }
}

fn number_at(text: &str, tokens: &[Token], at: usize, mut values: Vec<Value>) -> (Number, usize) {
    let before = |back: usize| at.checked_sub(back).map(|place| tokens[place]);
    let prefix = before(1).and_then(|token| units::currency_of(token.text));
    let mut next = at + 1;
    while let Some(factor) = multiplier_at(tokens, next, prefix.is_some()) {
        values.iter_mut().for_each(|value| {
            value.amount *= factor;
            value.step *= factor;
        });
        next += 1;
    }
    let suffix = unit_at(text, tokens, next);
    let length = suffix.map_or(0, |(_, length)| length);
    let end = next + length;
    let first = at - usize::from(prefix.is_some());
    let sign = first.checked_sub(1).map(|place| tokens[place]);
    let is_separate = |token: Token| token.is_spaced && !tokens[first].is_spaced;
    let is_negative = sign.is_some_and(|sign| {
        (matches!(sign.text, "-" | "−" | "–") && is_separate(sign)) || sign.text.eq_ignore_ascii_case("minus")
    });
    let word = sign.map(|sign| sign.text.to_lowercase()).unwrap_or_default();
    let is_approximate = matches!(word.as_str(), "~" | "≈") || APPROXIMATE.contains(&format!(" {word} "));
    let number = Number {
        text: text[tokens[first].start..tokens[end - 1].end()].to_owned(),
        values,
        unit: prefix.or(suffix.map(|(unit, _)| unit)),
        is_negative,
        is_approximate: is_approximate && !word.is_empty(),
    };
    (number, end - at)
}

/// Returns the multiplier at a token. "m" is a million only after a currency.
fn multiplier_at(tokens: &[Token], at: usize, has_currency: bool) -> Option<f64> {
    let token = tokens.get(at).filter(|token| token.kind == Kind::Word)?;
    if token.text.eq_ignore_ascii_case("m") {
        return has_currency.then_some(1e6);
    }
    // A single letter is a multiplier only directly after the digits.
    let is_attached = token.text.len() > 1 || !token.is_spaced;
    is_attached.then(|| units::multiplier_of(token.text)).flatten()
}

/// Returns the unit at a token, the longest of up to three tokens, and its number of tokens.
fn unit_at(text: &str, tokens: &[Token], at: usize) -> Option<(&'static str, usize)> {
    let first = tokens.get(at)?;
    // 324-metre, 5-year.
    let hyphen = usize::from(first.is_mark('-') && !first.is_spaced);
    let start = at + hyphen;
    (1..=3).rev().find_map(|length| {
        let last = tokens.get(start + length - 1)?;
        if hyphen == 1 && tokens[start].is_spaced {
            return None;
        }
        let spelling = text[tokens[start].start..last.end()].replace('-', " ");
        // A letter after a space may be any word.
        let is_letter = spelling.len() == 1 && spelling.starts_with(char::is_alphabetic);
        let is_followed = tokens.get(start + length).is_some_and(|next| next.is_mark('\''));
        if is_letter && first.is_spaced && is_followed {
            return None;
        }
        Some((units::unit_of(&spelling)?, length + hyphen))
    })
}

/// Gives the first number of a range such as "10–15 %" the unit of the second.
fn share_unit(figures: &mut [Figure], figure: &Figure, tokens: &[Token], at: usize) {
    let is_range = at >= 2
        && tokens[at - 2].kind == Kind::Number
        && matches!(
            tokens[at - 1].text,
            "-" | "–" | "—" | "to" | "bis" | "à" | "a" | "and" | "or"
        );
    if let (true, Some(Figure::Number(first)), Figure::Number(second)) =
        (is_range, figures.last_mut(), figure)
    {
        first.unit = first.unit.or(second.unit);
    }
}

/// Returns the texts in quotation marks, each within one line.
fn names(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().flat_map(|line| {
        let mut names = Vec::new();
        let mut open: Option<(usize, char)> = None;
        for (at, c) in line.char_indices() {
            match (open, c) {
                (Some((start, closer)), _) if c == closer || (closer == '“' && c == '”') => {
                    names.push(line[start..at].trim());
                    open = None;
                }
                (None, '"' | '“' | '„' | '«' | '「' | '『' | '‘') => {
                    open = Some((at + c.len_utf8(), closer_of(c)));
                }
                _ => {}
            }
        }
        names
    });
    let is_name = |name: &&str| name.len() > 1 && name.chars().nth(MAX_NAME_CHARS).is_none();
    lines.filter(is_name).map(str::to_owned)
}

const fn closer_of(opener: char) -> char {
    match opener {
        '“' => '”',
        '„' => '“',
        '«' => '»',
        '「' => '」',
        '『' => '』',
        '‘' => '’',
        _ => '"',
    }
}
