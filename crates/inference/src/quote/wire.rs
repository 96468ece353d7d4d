//! Request and response schemas for the OpenAPI document.

use serde::Serialize;
use serde_json::Value;
use tollgate_billing::Preview;
use tollgate_pipeline::Routed;
use utoipa::ToSchema;

use crate::counting::Counted;

/// Request body of `POST /v1/quote`.
#[derive(Serialize, ToSchema)]
pub struct CreateQuote {
    /// Path of an endpoint for text generation, embeddings or decisions, such as
    /// `/v1/chat/completions` or `/v1/models/sim/chat:generateContent`.
    endpoint: String,
    /// Body of the request to quote, exactly as it would be sent to the endpoint.
    #[schema(value_type = Object)]
    request: Value,
}

/// Maximum cost of a request.
#[derive(Serialize, ToSchema)]
pub struct Quote {
    /// Always `quote`.
    #[schema(value_type = String)]
    object: &'static str,
    /// Path of the endpoint as sent.
    endpoint: String,
    /// Model name as sent in the request.
    model: String,
    /// Version of the price list that applies.
    price_version: String,
    /// Number of input tokens of the request, with the precision `counting`.
    input_tokens: u64,
    /// Precision of `input_tokens`: `exact` if the gateway can count the tokens exactly without the
    /// provider, otherwise `upper_bound`.
    #[schema(value_type = String)]
    counting: &'static str,
    /// Maximum number of output tokens per choice. The provider receives no larger cap.
    output_cap: u64,
    /// Number of generated choices that are charged.
    answers: u64,
    /// Maximum cost of the request in credits, as a decimal string. The gateway would hold this
    /// amount now.
    #[serde(rename = "most")]
    max_cost: String,
    /// Breakdown of `most` by token class.
    items: Vec<QuoteItem>,
    /// Part of `most` that the allowance of the account's plan would cover, in credits.
    included: String,
    /// Part of `most` that the credit balance would have to cover, in credits.
    credits: String,
    /// Whether the account can currently cover `most`.
    sufficient: bool,
}

/// Cost of one token class.
#[derive(Serialize, ToSchema)]
pub struct QuoteItem {
    /// Token class: `input` or `output`.
    #[schema(value_type = String)]
    class: &'static str,
    /// Maximum number of tokens of this class.
    tokens: u64,
    /// Maximum applicable price, in credits per million tokens.
    price: String,
    /// Cost of this class in credits, rounded up.
    cost: String,
}

impl Quote {
    pub(super) fn new(endpoint: String, routed: &Routed, preview: &Preview, counted: &Counted) -> Self {
        let max_cost = preview.quote.amount;
        let included = preview.spendable.allowance.min(max_cost);
        let items = preview.quote.items(&routed.model, &preview.demand);
        Self {
            object: "quote",
            endpoint,
            model: routed.public_model.to_string(),
            price_version: routed.model.price_version.to_string(),
            input_tokens: counted.tokens,
            counting: counted.how,
            output_cap: preview.quote.output_cap,
            answers: preview.demand.n.max(1),
            max_cost: max_cost.to_string(),
            items: items.into_iter().map(QuoteItem::from).collect(),
            included: included.to_string(),
            credits: max_cost.saturating_sub(included).to_string(),
            sufficient: preview.is_covered,
        }
    }
}

impl From<tollgate_billing::Item> for QuoteItem {
    fn from(item: tollgate_billing::Item) -> Self {
        Self {
            class: item.unit.as_str(),
            tokens: item.quantity,
            price: item.price.to_string(),
            cost: item.cost().to_string(),
        }
    }
}
