//! Resolves references in a request: previous responses, items by id, and compacted conversations.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;
use tollgate_formats::DecodeError;
use tollgate_formats::openai_responses::{developer_message, input_items, with_items};
use tollgate_types::{AccountId, Error, ErrorCode, ResponseId};

use super::compact;
use super::store::{LatestResponse, Responses};

/// A request without references to stored responses.
pub(super) struct ResolvedRequest {
    /// The request body with all items inlined.
    pub(super) body: Bytes,
    /// The response that the request continues.
    pub(super) previous: Option<ResponseId>,
    /// Items of the conversation before this request.
    pub(super) before: Vec<Value>,
    /// Items of the request itself; `None` if the body contains no other items.
    own: Option<Vec<Value>>,
}

/// Markers of references. A body without any of them is self-contained.
const REFERENCE_MARKERS: [&[u8]; 3] = [
    b"\"previous_response_id\"",
    b"\"item_reference\"",
    b"\"compaction\"",
];

/// Inlines the references of a request. A malformed body remains unchanged, and the later
/// validation rejects it.
pub(super) async fn resolve(
    responses: &Responses,
    latest: Option<&Arc<LatestResponse>>,
    account: AccountId,
    body: Bytes,
) -> Result<ResolvedRequest, Error> {
    let mentions = |name: &&[u8]| memmem::find(&body, name).is_some();
    if !REFERENCE_MARKERS.iter().any(mentions) {
        return Ok(unchanged(body));
    }
    let (Some(previous), Ok(mut items)) = (previous(&body), input_items(&body)) else {
        return Ok(unchanged(body));
    };
    let is_self_contained = |item: &Value| item["type"] != "item_reference" && item["type"] != "compaction";
    if previous.is_none() && items.iter().all(is_self_contained) {
        return Ok(unchanged(body));
    }
    let (previous, before) = match previous {
        None => (None, Vec::new()),
        Some(id) => {
            let (id, before) = conversation(responses, latest, account, &id).await?;
            (Some(id), before)
        }
    };
    for (index, item) in items.iter_mut().enumerate() {
        if item["type"] == "item_reference" {
            *item = referenced(responses, account, &before, item, index).await?;
        }
    }
    let resolved_items: Vec<Value> = before
        .iter()
        .chain(&items)
        .map(|item| resolve_item(responses, account, item))
        .collect();
    Ok(ResolvedRequest {
        body: with_items(&body, &resolved_items)?,
        previous,
        before,
        own: Some(items),
    })
}

fn unchanged(body: Bytes) -> ResolvedRequest {
    ResolvedRequest {
        body,
        previous: None,
        before: Vec::new(),
        own: None,
    }
}

/// Parses `previous_response_id`; `None` if the body is malformed.
pub(super) fn previous(body: &[u8]) -> Option<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Named {
        previous_response_id: Option<String>,
    }
    let named: Named = serde_json::from_slice(body).ok()?;
    Some(named.previous_response_id)
}

async fn conversation(
    responses: &Responses,
    latest: Option<&Arc<LatestResponse>>,
    account: AccountId,
    id: &str,
) -> Result<(ResponseId, Vec<Value>), Error> {
    let of_session = latest.and_then(|latest| latest.conversation(id));
    match (of_session, id.parse()) {
        (Some(items), Ok(id)) => Ok((id, items)),
        _ => responses.conversation(account, id).await,
    }
}

async fn referenced(
    responses: &Responses,
    account: AccountId,
    before: &[Value],
    reference: &Value,
    index: usize,
) -> Result<Value, Error> {
    let param = format!("input[{index}].id");
    let Some(id) = reference["id"].as_str() else {
        return Err(DecodeError::missing(param).into());
    };
    if let Some(item) = before.iter().find(|item| item["id"] == id) {
        return Ok(item.clone());
    }
    responses.item(account, id).await?.ok_or_else(|| {
        let message = format!(
            "'{param}' does not match an item of a stored response. Responses are stored for 30 days, unless 'store' is \
             false. Send the item itself."
        );
        Error::new(ErrorCode::NotFound, message).with_param(param)
    })
}

/// Converts an item to the form that a model receives.
fn resolve_item(responses: &Responses, account: AccountId, item: &Value) -> Value {
    let summary = compact::summary(responses, account, item);
    summary.map_or_else(|| item.clone(), |summary| developer_message(&summary))
}

impl ResolvedRequest {
    /// Wraps a request that was resolved when it was accepted.
    pub(super) fn whole(body: Bytes, previous: Option<ResponseId>) -> Self {
        Self {
            previous,
            ..unchanged(body)
        }
    }

    /// Returns the items of the request itself.
    pub(super) fn take_own_items(&mut self) -> Result<Vec<Value>, Error> {
        match self.own.take() {
            Some(items) => Ok(items),
            None => Ok(input_items(&self.body)?),
        }
    }

    /// Maps the parameter path of an error to the caller's request, without the previous items.
    pub(super) fn with_request_paths(&self, error: Error) -> Error {
        let Some(param) = &error.param else { return error };
        let Some(path) = request_path(param, self.before.len()) else {
            return error;
        };
        let message = error.message.replace(&format!("'{param}'"), &format!("'{path}'"));
        Error::new(error.code, message).with_param(path)
    }
}

/// Subtracts the number of previous items: after five of them, `input[7].role` becomes
/// `input[2].role`. A path to a previous item becomes `previous_response_id`.
fn request_path(param: &str, before: usize) -> Option<String> {
    let (index, rest) = param.strip_prefix("input[")?.split_once(']')?;
    Some(match index.parse::<usize>().ok()?.checked_sub(before) {
        Some(own) => format!("input[{own}]{rest}"),
        None => "previous_response_id".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::request_path;

    #[test]
    fn parameter_paths_are_those_of_the_request() {
        assert_eq!(request_path("input[7].role", 5).as_deref(), Some("input[2].role"));
        assert_eq!(request_path("input[5]", 5).as_deref(), Some("input[0]"));
        assert_eq!(
            request_path("input[4].role", 5).as_deref(),
            Some("previous_response_id")
        );
        assert_eq!(request_path("model", 5), None);
    }
}
