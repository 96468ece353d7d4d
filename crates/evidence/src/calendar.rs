//! Recognition of dates among tokens.

use crate::lexer::{Kind, Token};
use crate::months::month_of;

/// A date whose year or day may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartialDate {
    pub(crate) year: Option<u16>,
    pub(crate) month: u8,
    pub(crate) day: Option<u8>,
    /// Whether month and day may be exchanged, as in 03/05/2024.
    pub(crate) is_ambiguous: bool,
}

/// Reads tokens from a place on.
struct Reader<'a, 't> {
    tokens: &'a [Token<'t>],
    at: usize,
}

impl<'a, 't> Reader<'a, 't> {
    fn peek(&self) -> Option<&'a Token<'t>> {
        self.tokens.get(self.at)
    }

    /// Skips one of these marks, with or without white space before it.
    fn skip_mark(&mut self, marks: &[char]) -> bool {
        let is_mark = self
            .peek()
            .is_some_and(|token| marks.iter().any(|&mark| token.is_mark(mark)));
        self.at += usize::from(is_mark);
        is_mark
    }

    /// Skips one of these words.
    fn skip_word(&mut self, words: &[&str]) -> bool {
        let is_word = |token: &Token| words.iter().any(|word| token.text.eq_ignore_ascii_case(word));
        let is_word = self.peek().is_some_and(is_word);
        self.at += usize::from(is_word);
        is_word
    }

    /// Reads a number with at most this many digits, in a range.
    fn number(&mut self, max_digits: usize, min: u16, max: u16) -> Option<u16> {
        let (digits, value) = self.peek()?.digits()?;
        let is_valid = digits <= max_digits && (min..=max).contains(&value);
        self.at += usize::from(is_valid);
        is_valid.then_some(value)
    }

    fn year(&mut self) -> Option<u16> {
        let is_year = self.peek()?.digits()?.0 == 4;
        is_year.then(|| self.number(4, 1000, 2199)).flatten()
    }

    fn day(&mut self) -> Option<u8> {
        let day = self.number(2, 1, 31)?;
        u8::try_from(day).ok()
    }

    /// Reads the name of a month. Names that are common words need a capital letter.
    fn month(&mut self) -> Option<u8> {
        let token = self.peek()?;
        let month = month_of(token.text)?;
        let is_word = matches!(token.text, "may" | "march" | "mar" | "dec");
        self.at += usize::from(!is_word);
        (!is_word).then_some(month)
    }

    /// Skips the ending of an ordinal: `3rd`, `3.`, `1er`.
    fn skip_ordinal(&mut self) {
        if self.peek().is_some_and(|token| !token.is_spaced) {
            let _ = self.skip_word(&["st", "nd", "rd", "th", "er", "re", "o", "a"]) || self.skip_mark(&['.']);
        }
    }
}

type Pattern = fn(&mut Reader) -> Option<PartialDate>;

/// Returns the date that begins at a token, and the number of its tokens.
pub(crate) fn date_at(tokens: &[Token], at: usize) -> Option<(PartialDate, usize)> {
    const PATTERNS: [Pattern; 7] = [
        pointed,
        year_first,
        day_first,
        month_first,
        month_and_year,
        numeric,
        with_signs,
    ];
    let is_candidate = match tokens.get(at)?.kind {
        Kind::Number => true,
        Kind::Word => month_of(tokens[at].text).is_some(),
        Kind::Mark => false,
    };
    let read = |pattern: &Pattern| {
        let mut reader = Reader { tokens, at };
        let date = pattern(&mut reader)?;
        Some((date, reader.at - at))
    };
    is_candidate.then(|| PATTERNS.iter().find_map(read)).flatten()
}

fn date(year: Option<u16>, month: u16, day: Option<u8>) -> Option<PartialDate> {
    let month = u8::try_from(month).ok()?;
    Some(PartialDate {
        year,
        month,
        day,
        is_ambiguous: false,
    })
}

/// Reads 03.05.2024 and 2024.05.03, which are one number for the lexer.
fn pointed(reader: &mut Reader) -> Option<PartialDate> {
    let token = reader.peek().filter(|token| token.kind == Kind::Number)?;
    let parts: Vec<&str> = token.text.split('.').collect();
    let number = |text: &str, max: u16| text.parse::<u16>().ok().filter(|value| (1..=max).contains(value));
    let [first, month, last] = parts[..] else {
        return None;
    };
    let (year, day) = match (first.len(), last.len()) {
        (4, 1 | 2) => (first, last),
        (1 | 2, 4) => (last, first),
        _ => return None,
    };
    let (year, month, day) = (number(year, 2199)?, number(month, 12)?, number(day, 31)?);
    reader.at += 1;
    date(Some(year), month, u8::try_from(day).ok())
}

/// Reads 2024-05-03 and 2024/5/3.
fn year_first(reader: &mut Reader) -> Option<PartialDate> {
    let year = reader.year()?;
    let mark = if reader.skip_mark(&['-']) { '-' } else { '/' };
    if mark == '/' && !reader.skip_mark(&['/']) {
        return None;
    }
    let month = reader.number(2, 1, 12)?;
    let day = reader.skip_mark(&[mark]).then(|| reader.day()).flatten()?;
    date(Some(year), month, Some(day))
}

/// Reads 3 May 2024, 3rd of May, 3. Mai 2024, 3 de mayo de 2024, 03-Nov-2025.
fn day_first(reader: &mut Reader) -> Option<PartialDate> {
    const OF: &[&str] = &["of", "de", "del"];
    let day = reader.day()?;
    reader.skip_ordinal();
    let _ = reader.skip_mark(&['-']) || reader.skip_word(OF);
    let month = reader.month()?;
    let end = reader.at;
    let _ = reader.skip_mark(&['.', ',', '-']) || reader.skip_word(OF);
    let year = reader.year();
    if year.is_none() {
        reader.at = end;
    }
    date(year, u16::from(month), Some(day))
}

/// Reads May 3, 2024 and Nov. 3rd.
fn month_first(reader: &mut Reader) -> Option<PartialDate> {
    let month = reader.month()?;
    reader.skip_mark(&['.']);
    let day = reader.day()?;
    reader.skip_ordinal();
    let end = reader.at;
    reader.skip_mark(&[',']);
    let year = reader.year();
    if year.is_none() {
        reader.at = end;
    }
    date(year, u16::from(month), Some(day))
}

/// Reads May 2024 and mayo de 2024.
fn month_and_year(reader: &mut Reader) -> Option<PartialDate> {
    let month = reader.month()?;
    let _ = reader.skip_mark(&['.', ',']) || reader.skip_word(&["of", "de", "del"]);
    let year = reader.year()?;
    date(Some(year), u16::from(month), None)
}

/// Reads 5/3/2024 and 3-5-2024. The first number is the month, if both can be it.
fn numeric(reader: &mut Reader) -> Option<PartialDate> {
    let first = reader.number(2, 1, 31)?;
    let mark = if reader.skip_mark(&['/']) { '/' } else { '-' };
    if mark == '-' && !reader.skip_mark(&['-']) {
        return None;
    }
    let second = reader.number(2, 1, 31)?;
    let year = reader.skip_mark(&[mark]).then(|| reader.year()).flatten()?;
    let (month, day) = if first > 12 {
        (second, first)
    } else {
        (first, second)
    };
    let mut date = date(Some(year), month, u8::try_from(day).ok()).filter(|date| date.month <= 12)?;
    date.is_ambiguous = first <= 12 && second <= 12 && first != second;
    Some(date)
}

/// Reads 2024年5月3日, 2024年5月, 5月3日.
fn with_signs(reader: &mut Reader) -> Option<PartialDate> {
    let start = reader.at;
    let year = reader.year().filter(|_| reader.skip_word(&["年"]));
    if year.is_none() {
        reader.at = start;
    }
    let month = reader.number(2, 1, 12).filter(|_| reader.skip_word(&["月"]))?;
    let end = reader.at;
    let day = reader.day().filter(|_| reader.skip_word(&["日", "号"]));
    if day.is_none() {
        reader.at = end;
    }
    (year.is_some() || day.is_some())
        .then(|| date(year, month, day))
        .flatten()
}
