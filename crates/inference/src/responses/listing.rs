//! The items that a kept response was made from, in pages.

use serde::Serialize;
use serde_json::Value;
use tollgate_formats::openai_responses::listed_item;
use tollgate_types::{AccountId, Error, ErrorCode, ResponseId};
use utoipa::{IntoParams, ToSchema};

use super::kept::Kept;

const DEFAULT_LIMIT: usize = 20;
const MOST_LIMIT: usize = 100;

/// Which items.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ItemsQuery {
    /// Items on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// `asc` or `desc`: the newest first, which is usual.
    order: Option<String>,
    /// The `id` of the last item of the page before.
    after: Option<String>,
}

impl ItemsQuery {
    /// Reads a query string. `include` may be there: everything that is kept is listed.
    pub(super) fn read(pairs: Vec<(String, String)>) -> Result<Self, Error> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "limit" => query.limit = Some(limit(&value)?),
                "order" if value == "asc" || value == "desc" => query.order = Some(value),
                "order" => return Err(invalid("order", "'order' is 'asc' or 'desc'.")),
                "after" => query.after = Some(value),
                "include" | "include[]" => {}
                _ => return Err(unknown(&name)),
            }
        }
        Ok(query)
    }
}

fn limit(text: &str) -> Result<usize, Error> {
    let limit = text.parse().ok().filter(|limit| (1..=MOST_LIMIT).contains(limit));
    limit.ok_or_else(|| invalid("limit", "'limit' is 1 to 100."))
}

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

pub(super) fn unknown(name: &str) -> Error {
    let message = format!("There is no parameter '{name}' here. Check its spelling, or leave it out.");
    Error::new(ErrorCode::UnknownParameter, message).with_param(name)
}

/// A page of items.
#[derive(Serialize, ToSchema)]
pub struct ResponseItems {
    /// Always `list`.
    object: &'static str,
    /// Items: what was said before the response, that of earlier responses included.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Value>,
    /// Id of the first item.
    first_id: Option<String>,
    /// Id of the last item.
    last_id: Option<String>,
    /// Whether there are more.
    has_more: bool,
}

/// A page of what a response was made from.
pub(super) async fn list(
    kept: &Kept,
    account: AccountId,
    id: &str,
    query: ItemsQuery,
) -> Result<ResponseItems, Error> {
    let turn = kept.get(account, id).await?;
    let before = match turn.response["previous_response_id"].as_str() {
        Some(previous) => kept.conversation(account, previous).await?.1,
        None => Vec::new(),
    };
    let number = id.parse::<ResponseId>().map_or(0, ResponseId::as_u128);
    let all = before.into_iter().chain(turn.input).enumerate();
    let mut items: Vec<Value> = all
        .map(|(index, item)| listed_item(item, number, index))
        .collect();
    if query.order.as_deref() != Some("asc") {
        items.reverse();
    }
    let start = match &query.after {
        None => 0,
        Some(after) => match items.iter().position(|item| item["id"] == **after) {
            Some(place) => place + 1,
            None => return Err(invalid("after", "'after' is the id of no item of this response.")),
        },
    };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let has_more = items.len() > start + limit;
    let data: Vec<Value> = items.into_iter().skip(start).take(limit).collect();
    let id_of = |item: Option<&Value>| item.and_then(|item| item["id"].as_str().map(str::to_owned));
    Ok(ResponseItems {
        object: "list",
        first_id: id_of(data.first()),
        last_id: id_of(data.last()),
        data,
        has_more,
    })
}
