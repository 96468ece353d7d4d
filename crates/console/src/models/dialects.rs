//! The model catalog in the formats of other client families, at the same paths.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_types::{Error, ErrorCode};

use super::wire::{ContentModel, ContentModelList, ModelRecord};

/// Response format of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's format, with the service's additional fields.
    Common,
    /// The common format with the additional fields of Anthropic's Models API.
    Messages,
    /// Google's format.
    GenerateContent,
}

/// Default number of models per page for Google clients.
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 1_000;

/// Default number of models per page for Anthropic clients.
const DEFAULT_LIMIT: usize = 20;

/// Page selection of Anthropic clients.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessagesQuery {
    limit: Option<String>,
    after_id: Option<String>,
    before_id: Option<String>,
}

/// Returns a page for Anthropic clients: the models after `after_id`, before `before_id`, or the
/// first ones. `has_more` reports whether more models exist in that direction.
pub(super) fn messages_page(records: &[ModelRecord], query: &MessagesQuery) -> Result<Value, Error> {
    let limit = limit(query.limit.as_deref())?;
    let place = |name: &str, id: &str| {
        let found = records.iter().position(|record| record.id == id);
        found.ok_or_else(|| invalid(name, "is not the id of an available model"))
    };
    let (start, end, has_more) = match (query.after_id.as_deref(), query.before_id.as_deref()) {
        (Some(_), Some(_)) => return Err(invalid("before_id", "cannot be combined with 'after_id'")),
        (None, Some(id)) => {
            let end = place("before_id", id)?;
            let start = end.saturating_sub(limit);
            (start, end, start > 0)
        }
        (after, None) => {
            let start = after.map_or(Ok(0), |id| place("after_id", id).map(|place| place + 1))?;
            let end = start.saturating_add(limit).min(records.len());
            (start, end, end < records.len())
        }
    };
    let page = &records[start..end];
    let data: Vec<Value> = page.iter().map(messages_record).collect();
    let id = |record: Option<&ModelRecord>| record.map(|record| record.id.clone());
    Ok(json!({
        "object": "list",
        "data": data,
        "first_id": id(page.first()),
        "last_id": id(page.last()),
        "has_more": has_more,
    }))
}

fn limit(text: Option<&str>) -> Result<usize, Error> {
    let number = text.map_or(Ok(DEFAULT_LIMIT), str::parse);
    let limit = number.ok().filter(|limit| (1..=MAX_PAGE_SIZE).contains(limit));
    limit.ok_or_else(|| invalid("limit", "must be an integer from 1 to 1000"))
}

fn invalid(name: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{name}' {what}.")).with_param(name)
}

/// Returns a record with the additional fields of Anthropic clients; all other fields stay
/// unchanged.
pub(super) fn messages_record(record: &ModelRecord) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    // The time is midnight, since the catalog has only the date.
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

/// Returns a page for Google clients. The page token is the index of the next page's first model.
pub(super) fn content_page(records: &[ModelRecord], query: Option<&str>) -> Result<ContentModelList, Error> {
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
            Some(Err(_)) => Err(invalid(name, "must be an integer of at least 0")),
        }
    };
    let size = match number("pageSize")? {
        None | Some(0) => DEFAULT_PAGE_SIZE,
        Some(size) => size.min(MAX_PAGE_SIZE),
    };
    let start = number("pageToken")?.unwrap_or(0);
    if start > records.len() {
        return Err(invalid("pageToken", "is not a valid page token"));
    }
    let end = (start + size).min(records.len());
    Ok(ContentModelList {
        models: records[start..end].iter().map(content_record).collect(),
        next_page_token: (end < records.len()).then(|| end.to_string()),
    })
}

/// Returns a record for Google clients.
pub(super) fn content_record(record: &ModelRecord) -> ContentModel {
    ContentModel {
        name: format!("models/{}", record.id),
        display_name: record.display_name.clone(),
        supported_generation_methods: match record.r#type {
            "embedding" => vec!["embedContent", "batchEmbedContents"],
            "chat" => vec!["generateContent", "streamGenerateContent", "countTokens"],
            _ => Vec::new(),
        },
        input_token_limit: record.context_window,
        output_token_limit: record.max_output_tokens,
    }
}
