//! What a request does not say again: the responses that it goes on from, items that it names by their ids, and what
//! was compacted.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;
use tollgate_formats::DecodeError;
use tollgate_formats::openai_responses::{developer_message, input_items, with_items};
use tollgate_types::{AccountId, Error, ErrorCode, ResponseId};

use super::compact;
use super::kept::{Kept, Latest};

/// A request that says everything itself.
pub(super) struct Recalled {
    /// The request.
    pub(super) body: Bytes,
    /// The response that it goes on from.
    pub(super) previous: Option<ResponseId>,
    /// What was said before.
    pub(super) before: Vec<Value>,
    /// What the request says itself, when that is not all of its input.
    own: Option<Vec<Value>>,
}

/// Bytes without which a request says everything itself.
const MENTIONS: [&[u8]; 3] = [
    b"\"previous_response_id\"",
    b"\"item_reference\"",
    b"\"compaction\"",
];

/// Fills in what the request leaves to what was said before. A body that cannot be read is left to the check that
/// follows.
pub(super) async fn recall(
    kept: &Kept,
    latest: Option<&Arc<Latest>>,
    account: AccountId,
    body: Bytes,
) -> Result<Recalled, Error> {
    let mentions = |name: &&[u8]| memmem::find(&body, name).is_some();
    if !MENTIONS.iter().any(mentions) {
        return Ok(unchanged(body));
    }
    let (Some(previous), Ok(mut items)) = (previous(&body), input_items(&body)) else {
        return Ok(unchanged(body));
    };
    let is_told_by_itself = |item: &Value| item["type"] != "item_reference" && item["type"] != "compaction";
    if previous.is_none() && items.iter().all(is_told_by_itself) {
        return Ok(unchanged(body));
    }
    let (previous, before) = match previous {
        None => (None, Vec::new()),
        Some(id) => {
            let (id, before) = conversation(kept, latest, account, &id).await?;
            (Some(id), before)
        }
    };
    for (index, item) in items.iter_mut().enumerate() {
        if item["type"] == "item_reference" {
            *item = referenced(kept, account, &before, item, index).await?;
        }
    }
    let told: Vec<Value> = before
        .iter()
        .chain(&items)
        .map(|item| told(kept, account, item))
        .collect();
    Ok(Recalled {
        body: with_items(&body, &told)?,
        previous,
        before,
        own: Some(items),
    })
}

fn unchanged(body: Bytes) -> Recalled {
    Recalled {
        body,
        previous: None,
        before: Vec::new(),
        own: None,
    }
}

/// The response that the request goes on from, if any; nothing when that cannot be read.
fn previous(body: &[u8]) -> Option<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Named {
        previous_response_id: Option<String>,
    }
    let named: Named = serde_json::from_slice(body).ok()?;
    Some(named.previous_response_id)
}

async fn conversation(
    kept: &Kept,
    latest: Option<&Arc<Latest>>,
    account: AccountId,
    id: &str,
) -> Result<(ResponseId, Vec<Value>), Error> {
    let of_session = latest.and_then(|latest| latest.conversation(id));
    match (of_session, id.parse()) {
        (Some(items), Ok(id)) => Ok((id, items)),
        _ => kept.conversation(account, id).await,
    }
}

async fn referenced(
    kept: &Kept,
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
    kept.item(account, id).await?.ok_or_else(|| {
        let message = format!(
            "'{param}' names an item of no response that is kept: responses are kept for 30 days, unless 'store' is \
             false. Send the item itself."
        );
        Error::new(ErrorCode::NotFound, message).with_param(param)
    })
}

/// The item as a model is told it.
fn told(kept: &Kept, account: AccountId, item: &Value) -> Value {
    let summary = compact::summary(kept, account, item);
    summary.map_or_else(|| item.clone(), |summary| developer_message(&summary))
}

impl Recalled {
    /// A request that said everything itself when it was accepted.
    pub(super) fn whole(body: Bytes, previous: Option<ResponseId>) -> Self {
        Self {
            previous,
            ..unchanged(body)
        }
    }

    /// What the request says itself.
    pub(super) fn take_own_items(&mut self) -> Result<Vec<Value>, Error> {
        match self.own.take() {
            Some(items) => Ok(items),
            None => Ok(input_items(&self.body)?),
        }
    }

    /// A fault of the request as its caller knows the places: without what was said before.
    pub(super) fn in_callers_places(&self, error: Error) -> Error {
        let Some(param) = &error.param else { return error };
        let Some(place) = own_place(param, self.before.len()) else {
            return error;
        };
        let message = error
            .message
            .replace(&format!("'{param}'"), &format!("'{place}'"));
        Error::new(error.code, message).with_param(place)
    }
}

/// `input[7].role` after five items from before is `input[2].role`; what is wrong with one from before is wrong with the
/// response that was named.
fn own_place(param: &str, before: usize) -> Option<String> {
    let (index, rest) = param.strip_prefix("input[")?.split_once(']')?;
    Some(match index.parse::<usize>().ok()?.checked_sub(before) {
        Some(own) => format!("input[{own}]{rest}"),
        None => "previous_response_id".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::own_place;

    #[test]
    fn places_are_those_of_the_caller() {
        assert_eq!(own_place("input[7].role", 5).as_deref(), Some("input[2].role"));
        assert_eq!(own_place("input[5]", 5).as_deref(), Some("input[0]"));
        assert_eq!(
            own_place("input[4].role", 5).as_deref(),
            Some("previous_response_id")
        );
        assert_eq!(own_place("model", 5), None);
    }
}
