//! Request and response schemas for the OpenAPI document.

use serde::Serialize;
use serde_json::{Number, Value};
use tollgate_billing::{Item, ItemizedQuote, Preview, Step, StepItem};
use tollgate_pipeline::Routed;
use tollgate_types::Unit;
use utoipa::ToSchema;

use crate::counting::Counted;

const MILLION: u64 = 1_000_000;

/// Request body of `POST /v1/quote`.
#[derive(Serialize, ToSchema)]
pub struct CreateQuote {
    /// Path of an endpoint with a JSON body: text generation, embeddings, decisions, images, videos
    /// or speech, such as `/v1/chat/completions`, `/v1/images/generations` or
    /// `/v1/models/sim/chat:generateContent`.
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
    /// Model name as sent in the request, or that of the default model; `compose` for compositions.
    model: String,
    /// Version of the price list that applies.
    price_version: String,
    /// Number of input tokens of the request, with the precision `counting`. 0 for media models
    /// that charge no tokens.
    input_tokens: u64,
    /// Precision of `input_tokens`: `exact` if the gateway can count the tokens exactly without the
    /// provider, otherwise `upper_bound`.
    #[schema(value_type = String)]
    counting: &'static str,
    /// Maximum number of output tokens per answer. The provider receives no larger cap. 0 for media
    /// models that charge no tokens; for compositions, the sum of all steps.
    output_cap: u64,
    /// Number of generated answers or images that are charged.
    answers: u64,
    /// Maximum cost of the request in credits, as a decimal string. The gateway would hold this
    /// amount now.
    #[serde(rename = "most")]
    max_cost: String,
    /// Breakdown of `most` by class; for compositions, also by step. Classes of media that cost
    /// nothing are absent.
    items: Vec<QuoteItem>,
    /// Part of `most` that the allowance of the account's plan would cover, in credits.
    included: String,
    /// Part of `most` that the credit balance would have to cover, in credits.
    credits: String,
    /// Whether the account can currently cover `most`.
    sufficient: bool,
}

/// Cost of one class of usage.
#[derive(Serialize, ToSchema)]
pub struct QuoteItem {
    /// Step of a composition, such as `script` or `scene-1 visual`; absent for other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// Model of the step; absent for other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Class of usage, as in the prices of models: `input` and `output` (tokens), `image`, `video`,
    /// `character`, `search`.
    #[schema(value_type = String)]
    class: &'static str,
    /// Maximum number of tokens of this class; 0 for classes that do not count tokens.
    tokens: u64,
    /// Maximum quantity of this class: tokens, standard images, seconds of standard video,
    /// characters, or queries. An image at twice the price counts as two.
    #[schema(value_type = f64)]
    quantity: Number,
    /// Maximum applicable price in credits: per million tokens or characters, per image, second or
    /// query.
    price: String,
    /// Cost of this class in credits, rounded up.
    cost: String,
}

impl Quote {
    /// Returns the quote of a call that is charged by tokens.
    pub(super) fn new(endpoint: String, routed: &Routed, preview: &Preview, counted: &Counted) -> Self {
        let quote = ItemizedQuote::of(&routed.public_model, &routed.model, preview);
        Self::of(endpoint, quote, counted, preview.quote.output_cap)
    }

    /// Returns the quote of a media request, whose tokens are those of its items.
    pub(super) fn of_media(endpoint: String, quote: ItemizedQuote) -> Self {
        let counted = Counted::bounded_by(quote.quantity(Unit::Input));
        let output_cap = quote.quantity(Unit::Output) / quote.answers.max(1);
        Self::of(endpoint, quote, &counted, output_cap)
    }

    fn of(endpoint: String, quote: ItemizedQuote, counted: &Counted, output_cap: u64) -> Self {
        let included = quote.included();
        Self {
            object: "quote",
            endpoint,
            model: quote.public_model.to_string(),
            price_version: quote.price_version.to_string(),
            input_tokens: counted.tokens,
            counting: counted.how,
            output_cap,
            answers: quote.answers,
            max_cost: quote.amount.to_string(),
            items: quote.items.into_iter().map(QuoteItem::from).collect(),
            included: included.to_string(),
            credits: quote.amount.saturating_sub(included).to_string(),
            sufficient: quote.is_covered,
        }
    }
}

impl From<StepItem> for QuoteItem {
    fn from(StepItem { step, item }: StepItem) -> Self {
        let (step, model) = step.map(|Step { name, model }| (name, model)).unzip();
        Self {
            step,
            model,
            class: item.unit.as_str(),
            tokens: if item.unit.is_token() { item.quantity } else { 0 },
            quantity: quantity(&item),
            price: item.price.to_string(),
            cost: item.cost().to_string(),
        }
    }
}

/// Returns the quantity in the unit that the price refers to.
fn quantity(item: &Item) -> Number {
    if !item.unit.is_in_millionths() {
        return item.quantity.into();
    }
    let whole = || Number::from(item.quantity / MILLION);
    match item.quantity % MILLION {
        0 => whole(),
        _ => Number::from_f64(item.quantity as f64 / MILLION as f64).unwrap_or_else(whole),
    }
}
