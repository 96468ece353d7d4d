//! Documents in JSON: objects with the fields `title`, `text`, `url`, `date` and `author`.

use serde::Deserialize;
use serde_json::Value;
use tollgate_types::Date;

use super::{Document, Parsed, file_title};

/// Fields of other types are ignored, except that the text is required.
#[derive(Deserialize)]
struct Fields {
    text: String,
    #[serde(default)]
    title: Value,
    #[serde(default)]
    url: Value,
    #[serde(default)]
    date: Value,
    #[serde(default)]
    author: Value,
}

/// Parses an object, or an array of objects.
pub(super) fn parse(path: &str, content: &str, parsed: &mut Parsed) {
    match serde_json::from_str(content) {
        Ok(Value::Array(items)) => {
            for (number, item) in (1_u64..).zip(items) {
                let fields = serde_json::from_value(item).ok();
                parsed.push(fields.map(|fields| document(path, Some(number), fields)));
            }
        }
        Ok(item) => {
            let fields = serde_json::from_value(item).ok();
            parsed.push(fields.map(|fields| document(path, None, fields)));
        }
        Err(_) => parsed.push(None),
    }
}

/// Parses one object a line. Empty lines are ignored, but count in the numbers of documents.
pub(super) fn parse_lines(path: &str, content: &str, parsed: &mut Parsed) {
    for (number, line) in (1_u64..).zip(content.lines()) {
        if !line.trim().is_empty() {
            let fields = serde_json::from_str(line).ok();
            parsed.push(fields.map(|fields| document(path, Some(number), fields)));
        }
    }
}

fn document(path: &str, number: Option<u64>, fields: Fields) -> Document {
    let string = |value: Value| match value {
        Value::String(text) if !text.trim().is_empty() => Some(text),
        _ => None,
    };
    Document {
        path: match number {
            Some(number) => format!("{path}/{number}"),
            None => path.to_owned(),
        },
        url: string(fields.url),
        title: string(fields.title).unwrap_or_else(|| file_title(path)),
        author: string(fields.author),
        date: string(fields.date).and_then(|date| Date::parse(date.trim())),
        text: fields.text,
    }
}
