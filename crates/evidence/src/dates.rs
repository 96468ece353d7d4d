//! Dates of pages and of hits of searches.

#[cfg(test)]
mod tests;

use tollgate_types::Date;

use crate::calendar::{PartialDate, date_at};
use crate::lexer::{Kind, Token, prepare, tokens};

/// Maximum length of a text that is searched for a date, in code points.
const MAX_CHARS: usize = 200;

/// Words that mean a past time after or before a number and a unit.
const AGO: [&str; 10] = [
    "ago", "vor", "il y a", "hace", "前", "fa", "há", "geleden", "atrás", "earlier",
];

/// Units of relative dates, with their lengths in days.
const UNITS: [(&str, u32); 9] = [
    (
        " second sec s sekunde seconde segundo minute min m minuto hour hr h stunde heure hora ora uur ",
        0,
    ),
    (" day d tag jour día dia giorno dag 天 日 ", 1),
    (" week w wk woche semaine semana settimana 周 週 ", 7),
    (" month mo mon monat moi mese mes maand 月 ", 30),
    (" year y yr jahr an année año ano anno jaar 年 ", 365),
    (" tagen tage jours días dias giorni dagen ", 1),
    (" wochen semaines semanas settimane weken ", 7),
    (" monaten monate mois meses mesi maanden ", 30),
    (" jahren jahre ans años anos anni jaren ", 365),
];

/// Words for days, with their distances from today.
const DAYS: [(&str, u32); 16] = [
    ("today", 0),
    ("now", 0),
    ("heute", 0),
    ("aujourd'hui", 0),
    ("hoy", 0),
    ("oggi", 0),
    ("hoje", 0),
    ("今天", 0),
    ("今日", 0),
    ("yesterday", 1),
    ("gestern", 1),
    ("hier", 1),
    ("ayer", 1),
    ("ieri", 1),
    ("昨天", 1),
    ("昨日", 1),
];

/// Returns the first date of a text, such as "2025-11-03T10:00:00Z", "Mon, 03 Nov 2025", "Updated
/// Nov 3, 2025" or "3 days ago". A date without a day is the first of its month; one without a year
/// is the last such date until today. In 5/3/2024 the month is first, unless that is impossible.
/// `None` without a date, and for dates that do not exist. Only the first 200 characters count.
pub fn parse_date(text: &str, today: Date) -> Option<Date> {
    let text: String = text.chars().take(MAX_CHARS).collect();
    let text = prepare(&text);
    let tokens = tokens(&text);
    absolute(&tokens, today)
        .or_else(|| compact(&tokens))
        .or_else(|| relative(&text.to_lowercase(), today))
}

fn absolute(tokens: &[Token], today: Date) -> Option<Date> {
    let mut at = 0;
    while at < tokens.len() {
        let found = date_at(tokens, at);
        if let Some(date) = found.and_then(|(date, _)| complete(date, today)) {
            return Some(date);
        }
        at += found.map_or(1, |(_, length)| length);
    }
    None
}

fn complete(date: PartialDate, today: Date) -> Option<Date> {
    let day = date.day.unwrap_or(1);
    let year = match date.year {
        Some(year) => year,
        None => {
            let this_year = Date::new(today.year(), date.month, day)?;
            today.year() - u16::from(this_year > today)
        }
    };
    Date::new(year, date.month, day)
}

/// Parses a date of eight digits, such as 20251103, in years from 1900 on.
fn compact(tokens: &[Token]) -> Option<Date> {
    let is_compact = |token: &&Token| {
        token.kind == Kind::Number
            && token.text.len() == 8
            && !token.text.contains(|c: char| !c.is_ascii_digit())
    };
    let text = tokens.iter().find(is_compact)?.text;
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u16>().ok();
    let year = part(0, 4).filter(|year| (1900..=2199).contains(year))?;
    let (month, day) = (part(4, 6)?, part(6, 8)?);
    Date::new(year, u8::try_from(month).ok()?, u8::try_from(day).ok()?)
}

/// Parses "3 days ago" and "yesterday", from a text in lower case.
fn relative(text: &str, today: Date) -> Option<Date> {
    let tokens = tokens(text);
    let has_word = |word: &str| {
        let is_word = tokens.iter().any(|token| token.text == word);
        is_word || (!word.is_ascii() || word.contains([' ', '\''])) && text.contains(word)
    };
    if let Some((_, days)) = DAYS.iter().find(|(word, _)| has_word(word)) {
        return Some(today.minus_days(*days));
    }
    if !AGO.iter().any(|word| has_word(word)) {
        return None;
    }
    tokens.windows(2).find_map(|pair| {
        let count = match pair[0].text {
            "a" | "an" | "one" | "einem" | "einer" | "un" | "une" | "una" => 1,
            _ => u32::from(pair[0].digits()?.1),
        };
        earlier(today, count, pair[1].text)
    })
}

/// Returns the date a number of units before today.
fn earlier(today: Date, count: u32, unit: &str) -> Option<Date> {
    let singular = unit.strip_suffix('s').filter(|unit| unit.len() > 2);
    let has = |units: &str, unit: &str| units.contains(&format!(" {unit} "));
    let found = UNITS
        .iter()
        .find(|(units, _)| has(units, unit) || singular.is_some_and(|unit| has(units, unit)));
    let (_, days) = found?;
    let months = match days {
        30 => count,
        365 => count.saturating_mul(12),
        _ => return Some(today.minus_days(count.saturating_mul(*days))),
    };
    let month = (u32::from(today.year()) * 12 + u32::from(today.month()) - 1).checked_sub(months)?;
    let (year, month) = (
        u16::try_from(month / 12).ok()?,
        u8::try_from(month % 12 + 1).ok()?,
    );
    // The last day of the month, if this day does not exist there.
    (0..4).find_map(|less| Date::new(year, month, today.day().checked_sub(less)?))
}
