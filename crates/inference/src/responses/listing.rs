//! Lists the input items of a stored response, in pages.

use serde::Serialize;
use serde_json::Value;
use tollgate_formats::openai_responses::listed_item;
use tollgate_types::{AccountId, Error, ErrorCode, ResponseId};
use utoipa::{IntoParams, ToSchema};

use super::store::Responses;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Query parameters of the list of input items.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ItemsQuery {
    /// Number of items per page, 1 to 100. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Sort order: `asc` or `desc`. Default: `desc` (newest first).
    order: Option<String>,
    /// Return items that come after the item with this `id`.
    after: Option<String>,
}

impl ItemsQuery {
    /// Parses a query string. `include` is accepted and ignored: the list contains all stored data.
    pub(super) fn read(pairs: Vec<(String, String)>) -> Result<Self, Error> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "limit" => query.limit = Some(limit(&value)?),
                "order" if value == "asc" || value == "desc" => query.order = Some(value),
                "order" => return Err(invalid("order", "'order' must be 'asc' or 'desc'.")),
                "after" => query.after = Some(value),
                "include" | "include[]" => {}
                _ => return Err(Error::unknown_parameter(name)),
            }
        }
        Ok(query)
    }
}

fn limit(text: &str) -> Result<usize, Error> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| invalid("limit", "'limit' must be an integer from 1 to 100."))
}

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// One page of input items.
#[derive(Serialize, ToSchema)]
pub struct ResponseItems {
    /// Always `list`.
    object: &'static str,
    /// Input items of the response, including the input and output items of the responses that it
    /// continues.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Value>,
    /// Id of the first item of this page.
    first_id: Option<String>,
    /// Id of the last item of this page.
    last_id: Option<String>,
    /// Whether more items follow.
    has_more: bool,
}

/// Returns a page of the input items of a stored response, and of the responses that it continues.
pub(super) async fn list(
    responses: &Responses,
    account: AccountId,
    id: &str,
    query: ItemsQuery,
) -> Result<ResponseItems, Error> {
    let turn = responses.get(account, id).await?;
    let before = match turn.response["previous_response_id"].as_str() {
        Some(previous) => responses.conversation(account, previous).await?.1,
        None => Vec::new(),
    };
    page(before.into_iter().chain(turn.input), id, query)
}

/// Returns a page of the input items of the response with this id.
pub(super) fn page(
    items: impl IntoIterator<Item = Value>,
    id: &str,
    query: ItemsQuery,
) -> Result<ResponseItems, Error> {
    let number = id.parse::<ResponseId>().map_or(0, ResponseId::as_u128);
    let mut items: Vec<Value> = items
        .into_iter()
        .enumerate()
        .map(|(index, item)| listed_item(item, number, index))
        .collect();
    if query.order.as_deref() != Some("asc") {
        items.reverse();
    }
    let start = match &query.after {
        None => 0,
        Some(after) => match items.iter().position(|item| item["id"] == **after) {
            Some(place) => place + 1,
            None => {
                return Err(invalid(
                    "after",
                    "'after' must be the id of an input item of the response.",
                ));
            }
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
