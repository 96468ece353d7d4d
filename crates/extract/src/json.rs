//! Text of JSON documents: one line for each value, with its name.

use serde_json::{Map, Value};
use tollgate_evidence::text::MAX_SOURCE_CHARS;
use tollgate_types::Date;
use tollgate_upstream::ExtractError;

use crate::Draft;

/// Names of members with the title of a document.
const TITLES: [&str; 3] = ["title", "headline", "name"];
/// Names of members with the publication date.
const DATES: [&str; 4] = ["date", "datePublished", "published", "published_at"];
/// Names of members with the author.
const AUTHORS: [&str; 2] = ["author", "byline"];

/// Maximum length of the names before a value, in bytes. Longer ones are left out.
const MAX_PATH_BYTES: usize = 200;

pub(crate) fn draft(text: &str) -> Result<Draft, ExtractError> {
    let value: Value = serde_json::from_str(text).map_err(|_| ExtractError::Malformed)?;
    let mut draft = Draft::default();
    if let Value::Object(members) = &value {
        draft.title = member(members, &TITLES).unwrap_or_default().to_owned();
        draft.author = member(members, &AUTHORS).map(str::to_owned);
        draft.date = member(members, &DATES).and_then(Date::parse);
    }
    write(&mut draft.text, "", &value);
    Ok(draft)
}

fn member<'a>(members: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

/// Writes the values below `path`, until the text has its maximum length. serde_json limits the
/// depth of a document.
fn write(text: &mut String, path: &str, value: &Value) {
    // A character has at most four bytes.
    if text.len() >= MAX_SOURCE_CHARS * 4 {
        return;
    }
    let line = match value {
        Value::Null => return,
        Value::Object(members) => {
            for (name, value) in members {
                match path {
                    "" => write(text, name, value),
                    _ if path.len() + name.len() >= MAX_PATH_BYTES => write(text, name, value),
                    _ => write(text, &format!("{path}.{name}"), value),
                }
            }
            text.push('\n');
            return;
        }
        Value::Array(values) => {
            values.iter().for_each(|value| write(text, path, value));
            return;
        }
        Value::String(string) => string.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    if !path.is_empty() && path.len() < MAX_PATH_BYTES {
        text.push_str(path);
        text.push_str(": ");
    }
    text.push_str(&line);
    text.push('\n');
}
