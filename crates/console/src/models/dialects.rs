//! The catalog in the shapes of other families of clients, at the same paths.

use serde_json::{Value, json};
use tollgate_types::{Error, ErrorCode};

use super::wire::ModelRecord;

/// Whose shape a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's, with the service's own fields.
    Common,
    /// The same with the fields of messages.
    Messages,
    /// That of generated content.
    GenerateContent,
}

/// The models of one page when the request does not say, and at the most.
const USUAL_PAGE: usize = 50;
const LARGEST_PAGE: usize = 1_000;

/// The list for clients of messages. It is whole.
pub(super) fn messages_list(records: &[ModelRecord]) -> Value {
    let data: Vec<Value> = records.iter().map(messages_record).collect();
    let id = |record: Option<&ModelRecord>| record.map(|record| record.id.clone());
    json!({
        "object": "list",
        "data": data,
        "first_id": id(records.first()),
        "last_id": id(records.last()),
        "has_more": false,
    })
}

/// A record that clients of messages read, with every other field as it is.
pub(super) fn messages_record(record: &ModelRecord) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    // Midnight, as far as the day is known.
    let day = match record.release_date.as_str() {
        "-" => "1970-01-01",
        day => day,
    };
    value["type"] = json!("model");
    value["created_at"] = json!(format!("{day}T00:00:00Z"));
    value["max_input_tokens"] = json!(record.context_window);
    value["max_tokens"] = json!(record.max_output_tokens);
    value
}

/// A page for clients of generated content. The token of the next one is the place at which it begins.
pub(super) fn content_page(records: &[ModelRecord], query: Option<&str>) -> Result<Value, Error> {
    let number = |name: &str| -> Result<Option<usize>, Error> {
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let text = pairs
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value)
            .next_back();
        match text.filter(|text| !text.is_empty()).map(str::parse) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => {
                let message = format!("'{name}' must be a whole number that is not negative.");
                Err(Error::new(ErrorCode::InvalidParameter, message).with_param(name))
            }
        }
    };
    let size = match number("pageSize")? {
        None | Some(0) => USUAL_PAGE,
        Some(size) => size.min(LARGEST_PAGE),
    };
    let start = number("pageToken")?.unwrap_or(0).min(records.len());
    let end = (start + size).min(records.len());
    let models: Vec<Value> = records[start..end].iter().map(content_record).collect();
    let mut page = json!({"models": models});
    if end < records.len() {
        page["nextPageToken"] = json!(end.to_string());
    }
    Ok(page)
}

/// A record for clients of generated content.
pub(super) fn content_record(record: &ModelRecord) -> Value {
    let methods: &[&str] = match record.r#type {
        "embedding" => &["embedContent", "batchEmbedContents"],
        _ => &["generateContent", "streamGenerateContent", "countTokens"],
    };
    let mut value = json!({
        "name": format!("models/{}", record.id),
        "displayName": record.display_name,
        "supportedGenerationMethods": methods,
    });
    for (name, tokens) in [
        ("inputTokenLimit", record.context_window),
        ("outputTokenLimit", record.max_output_tokens),
    ] {
        if let Some(tokens) = tokens {
            value[name] = json!(tokens);
        }
    }
    value
}
