//! Generates strings by format, pattern and length.

use serde_json::{Map, Value};

use super::number::count;
use crate::sim::pattern;

/// Maximum supported value of `minLength`, in characters.
const MAX_CHARS: usize = 65_536;
/// Minimum value of `minLength` for which a string consists of sentences, in characters.
const MIN_SENTENCE_CHARS: usize = 12;
/// Default word of a string without constraints.
const WORD: &str = "text";

/// Returns a value for a schema that allows any value.
pub(super) fn any(variant: usize) -> Value {
    Value::String(varied(WORD, variant))
}

/// Generates a string. A long string uses the words of `user_text`.
pub(super) fn string(schema: &Map<String, Value>, variant: usize, user_text: &str) -> Option<Value> {
    let min = count(schema, "minLength", 0);
    let max = count(schema, "maxLength", usize::MAX);
    if min > max.min(MAX_CHARS) {
        return None;
    }
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    if let Some(wanted) = text("pattern") {
        return pattern::matching(wanted, min, max, variant).map(Value::String);
    }
    if let Some(found) = text("format").and_then(|format| formatted(format, variant)) {
        return Some(Value::String(found));
    }
    if min >= MIN_SENTENCE_CHARS
        && let Some(text) = prose(user_text, min, max, variant)
    {
        return Some(Value::String(text));
    }
    let word = varied(WORD, variant);
    let mut letters: Vec<char> = word.chars().cycle().take(word.len().max(min)).collect();
    if letters.len() > max {
        // The variant's number is at the end of the word, so the start is removed.
        letters = letters.split_off(letters.len() - max);
    }
    Some(Value::String(letters.into_iter().collect()))
}

/// Prefixes of additional texts about the same message.
const OPENERS: [&str; 7] = [
    "A closer look:",
    "Think of it this way:",
    "Here is why it matters:",
    "One more thing:",
    "Also note:",
    "And then:",
    "To sum up:",
];

/// Generates a title from as many words of `user_text` as fit. `None` if the schema is not that of
/// a plain string.
pub(super) fn title(schema: &Map<String, Value>, user_text: &str) -> Option<Value> {
    let (min, max) = (
        count(schema, "minLength", 0),
        count(schema, "maxLength", usize::MAX),
    );
    let is_plain = !["pattern", "format", "enum", "const"]
        .iter()
        .any(|keyword| schema.contains_key(*keyword));
    let is_text = schema.get("type").and_then(Value::as_str) == Some("string");
    (is_plain && is_text && min <= max).then_some(())?;
    let words: Vec<&str> = user_text.split_whitespace().collect();
    repeated(&words, min.max(1), max).map(Value::String)
}

/// Generates a text about `user_text`. The first variant is the message; others are its later
/// sentences, or the message after an opener. `None` if the text does not fit the bounds.
fn prose(user_text: &str, min: usize, max: usize, variant: usize) -> Option<String> {
    let sentences: Vec<&str> = user_text
        .split_inclusive(['.', '!', '?'])
        .map(str::trim)
        .collect();
    let further = sentences
        .get(variant)
        .filter(|sentence| sentence.chars().count() >= min);
    let text = match (variant, further) {
        (0, _) => user_text.to_owned(),
        (_, Some(sentence)) => (*sentence).to_owned(),
        (variant, None) => {
            let opener = OPENERS
                .get((variant - 1) % OPENERS.len())
                .copied()
                .unwrap_or_default();
            format!("{opener} {user_text}")
        }
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    repeated(&words, min, max)
}

/// Repeats the words until the text has at least `min` characters. `None` if `max` does not allow
/// this.
fn repeated(words: &[&str], min: usize, max: usize) -> Option<String> {
    let usual = words.len();
    let mut text = String::new();
    let mut length = 0;
    for (count, word) in words.iter().cycle().take(min.max(usual)).enumerate() {
        let letters = word.chars().count() + usize::from(count > 0);
        if length + letters > max || length >= min && count >= usual {
            break;
        }
        if count > 0 {
            text.push(' ');
        }
        text.push_str(word);
        length += letters;
    }
    (length >= min).then_some(text)
}

fn varied(word: &str, variant: usize) -> String {
    match variant {
        0 => word.to_owned(),
        _ => format!("{word}{variant}"),
    }
}

/// Generates a text of a format of JSON Schema (JSON Schema Validation, section 7.3); `None` for an
/// unknown format.
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
