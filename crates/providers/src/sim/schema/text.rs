//! Strings: formats, patterns, lengths.

use serde_json::{Map, Value};

use super::number::count;
use crate::sim::pattern;

/// The longest string that is made.
const LONGEST: usize = 65_536;
/// From so many letters on a text is to say something.
const LONG: usize = 12;
/// What is said where nothing is asked for.
const WORD: &str = "text";

/// A value where any may stand.
pub(super) fn any(variant: usize) -> Value {
    Value::String(varied(WORD, variant))
}

/// A string. One that is to be long is of the words that were said.
pub(super) fn string(schema: &Map<String, Value>, variant: usize, said: &str) -> Option<Value> {
    let least = count(schema, "minLength", 0);
    let most = count(schema, "maxLength", usize::MAX);
    if least > most.min(LONGEST) {
        return None;
    }
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    if let Some(wanted) = text("pattern") {
        return pattern::matching(wanted, least, most, variant).map(Value::String);
    }
    if let Some(found) = text("format").and_then(|format| formatted(format, variant)) {
        return Some(Value::String(found));
    }
    if least >= LONG
        && let Some(text) = of_words(said, least, most, variant)
    {
        return Some(Value::String(text));
    }
    let word = varied(WORD, variant);
    let mut letters: Vec<char> = word.chars().cycle().take(word.len().max(least)).collect();
    if letters.len() > most {
        // What distinguishes the variants is at the end.
        letters = letters.split_off(letters.len() - most);
    }
    Some(Value::String(letters.into_iter().collect()))
}

/// The words that were said, from another one on for each variant, over and over until there are enough. Nothing where they
/// do not fit.
fn of_words(said: &str, least: usize, most: usize, variant: usize) -> Option<String> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let first = variant * words.len().div_ceil(3) % words.len().max(1);
    let usual = words.len();
    let mut text = String::new();
    let mut length = 0;
    for (count, word) in words
        .iter()
        .cycle()
        .skip(first)
        .take(least.max(usual))
        .enumerate()
    {
        let letters = word.chars().count() + usize::from(count > 0);
        if length + letters > most || length >= least && count >= usual {
            break;
        }
        if count > 0 {
            text.push(' ');
        }
        text.push_str(word);
        length += letters;
    }
    (length >= least).then_some(text)
}

fn varied(word: &str, variant: usize) -> String {
    match variant {
        0 => word.to_owned(),
        _ => format!("{word}{variant}"),
    }
}

/// A text of a format that JSON Schema knows (Validation, section 7.3).
fn formatted(format: &str, variant: usize) -> Option<String> {
    let two = variant % 28 + 1;
    let low = variant % 250 + 1;
    Some(match format {
        "date-time" => format!("2026-01-{two:02}T12:00:00Z"),
        "date" => format!("2026-01-{two:02}"),
        "time" => format!("12:00:{two:02}Z"),
        "duration" => format!("PT{two}H"),
        "email" | "idn-email" => format!("user{low}@example.com"),
        "hostname" | "idn-hostname" => format!("host{low}.example.com"),
        "ipv4" => format!("192.0.2.{low}"),
        "ipv6" => format!("2001:db8::{low:x}"),
        "uri" | "iri" | "uri-reference" | "iri-reference" => format!("https://example.com/{low}"),
        "uuid" => format!("01970000-0000-7000-8000-{variant:012x}"),
        "json-pointer" => format!("/{low}"),
        "regex" => "^text$".to_owned(),
        _ => return None,
    })
}
