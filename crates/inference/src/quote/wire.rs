//! The shapes of request and answer.

use serde::Serialize;
use serde_json::Value;
use tollgate_billing::Preview;
use tollgate_pipeline::Routed;
use utoipa::ToSchema;

use crate::counting::Counted;

/// A request for a quote.
#[derive(Serialize, ToSchema)]
pub struct CreateQuote {
    /// Path of the endpoint, such as `/v1/chat/completions` or `/v1/models/sim/chat:generateContent`: any that generates
    /// text, makes embeddings or decides.
    endpoint: String,
    /// The body of a request to it, as it would be sent.
    #[schema(value_type = Object)]
    request: Value,
}

/// What a request can cost.
#[derive(Serialize, ToSchema)]
pub struct Quote {
    /// Always `quote`.
    #[schema(value_type = String)]
    object: &'static str,
    /// The path that was asked about.
    endpoint: String,
    /// The model that would answer.
    model: String,
    /// Names the prices.
    price_version: String,
    /// Tokens of the input.
    input_tokens: u64,
    /// `exact`, or `upper_bound` where it is not known how the model's provider counts.
    #[schema(value_type = String)]
    counting: &'static str,
    /// Most output tokens of each answer; the provider is told no larger cap.
    output_cap: u64,
    /// Answers that are paid for.
    answers: u64,
    /// The most that the request can cost, in credits as a decimal string: what would be held for it now.
    most: String,
    /// What that is made of.
    items: Vec<QuoteItem>,
    /// How much of it the allowance of the account's plan would cover.
    included: String,
    /// How much of it credits would have to cover.
    credits: String,
    /// Whether the account can pay it now.
    sufficient: bool,
}

/// One class of tokens.
#[derive(Serialize, ToSchema)]
pub struct QuoteItem {
    /// `input` or `output`.
    #[schema(value_type = String)]
    class: &'static str,
    /// The most of them.
    tokens: u64,
    /// Credits for a million of them, at the dearest that may apply.
    price: String,
    /// What they cost, rounded up by themselves.
    cost: String,
}

impl Quote {
    pub(super) fn new(endpoint: String, routed: &Routed, preview: &Preview, counted: &Counted) -> Self {
        let most = preview.quote.amount;
        let included = preview.spendable.allowance.min(most);
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
            most: most.to_string(),
            items: items.into_iter().map(QuoteItem::from).collect(),
            included: included.to_string(),
            credits: most.saturating_sub(included).to_string(),
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
