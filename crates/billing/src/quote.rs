//! Quotes: the maximum cost of a call, before it is sent.

use tollgate_catalog::Model;
use tollgate_types::money::{Discount, UNITS_PER_PRICE};
use tollgate_types::{Credits, Tokenizer, Unit, Usage};

/// Tokens of a model's chat template for one message.
const TOKENS_PER_MESSAGE: u64 = 8;

/// Maximum number of tokens that a model of the catalog charges for one image.
pub const TOKENS_PER_IMAGE: u64 = 50_000;

/// Output cap sent upstream if neither the caller nor the catalog sets one: without a cap there is
/// no bound. It is the smallest output limit of the models that OpenAI has sold as chat models, and
/// leaves half of an 8k context to the input.
pub const FALLBACK_OUTPUT_CAP: u64 = 4_096;

/// Minimum output cap, in tokens, of a quote that is limited by the balance.
pub const MIN_CLAMP: u64 = 1_024;

/// Minimum output cap, in tokens, of a quote that is limited by `max_cost`: some upstreams refuse
/// smaller ones.
pub const MIN_OUTPUT_TOKENS: u64 = 16;

/// Absolute margin of a counted text, in tokens: the provider may count more than the published
/// tokenizer.
const MARGIN_PER_TEXT: u64 = 8;

/// Relative margin of a counted text: one token in 16.
const MARGIN_SHARE: u64 = 16;

/// Counting is skipped if the input, by its bytes, costs less than one part in 16 of the spend
/// limit: the affordable output cap would hardly rise.
const SMALL_SHARE: i64 = 16;

/// Totals of the texts that a tokenizer has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CountedText {
    /// Number of texts.
    pub texts: u64,
    /// Size of the texts in bytes.
    pub bytes: u64,
    /// Number of tokens in the texts.
    pub tokens: u64,
}

impl CountedText {
    /// Returns the minimum number of tokens that a provider may count: the tokenizer's count less
    /// the margins of [`Demand::counted`].
    pub fn fewest(&self) -> u64 {
        self.tokens.saturating_sub(self.margin())
    }

    fn margin(&self) -> u64 {
        (self.tokens / MARGIN_SHARE).saturating_add(self.texts.saturating_mul(MARGIN_PER_TEXT))
    }
}

/// Cost-relevant size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of the request without inline media. A token has at least one byte.
    pub text_bytes: u64,
    /// Input tokens of requests that send tokens instead of text.
    pub tokens: u64,
    /// Messages of the conversation, or texts to embed.
    pub messages: u64,
    /// Inputs that a model reads separately: each fits into its context window. Zero where no
    /// window applies.
    pub inputs: u64,
    /// Bytes of inline media other than images.
    pub media_bytes: u64,
    /// Number of input images.
    pub images: u64,
    /// The caller's cap on output tokens of one answer; zero where there is no output, as for
    /// embeddings.
    pub max_tokens: Option<u64>,
    /// Output tokens reserved for reasoning: an upstream refuses a cap that is not larger.
    pub reasoning_budget: u64,
    /// Number of requested answers.
    pub n: u64,
    /// Whether the provider's cache may store some of the input for an hour.
    pub caches_for_an_hour: bool,
    /// Maximum output in units that are not tokens.
    pub made: Usage,
}

impl Demand {
    /// Returns an upper bound of the input tokens that holds for every tokenizer.
    pub fn input_bound(&self) -> u64 {
        let framing = self.messages.saturating_mul(TOKENS_PER_MESSAGE);
        let image_tokens = self.images.saturating_mul(TOKENS_PER_IMAGE);
        self.text_bytes
            .saturating_add(self.tokens)
            .saturating_add(framing)
            .saturating_add(self.media_bytes)
            .saturating_add(image_tokens)
    }

    /// Returns [`Demand::input_bound`], or the model's context window if that is smaller.
    pub fn input_bound_of(&self, model: &Model) -> u64 {
        let window = self.window(model).unwrap_or(u64::MAX);
        self.input_bound().min(window)
    }

    /// Returns the maximum input tokens of the model's context window; `None` where no window is
    /// known or applies.
    pub fn window(&self, model: &Model) -> Option<u64> {
        let inputs = Some(self.inputs).filter(|inputs| *inputs > 0)?;
        Some(model.context_window?.saturating_mul(inputs))
    }

    /// Returns the estimated input tokens (bytes ÷ 4): used for token reservations, and for charges
    /// without a report.
    pub fn input_estimate(&self) -> u64 {
        self.text_bytes
            .div_ceil(4)
            .saturating_add(self.tokens)
            .saturating_add(self.media_bytes.div_ceil(4))
            .min(self.input_bound())
    }

    /// Returns the demand with these texts bounded by their tokens plus a margin, at most their
    /// bytes; everything else is bounded by its bytes as before.
    pub fn counted(self, text: CountedText) -> Demand {
        let tokens = text.tokens.saturating_add(text.margin()).min(text.bytes);
        Demand {
            text_bytes: self.text_bytes.saturating_sub(text.bytes),
            tokens: self.tokens.saturating_add(tokens),
            ..self
        }
    }

    /// Whether no output tokens are charged.
    pub fn is_input_only(&self) -> bool {
        self.max_tokens == Some(0)
    }

    /// Returns Σ quantity × price of the units that are not tokens.
    fn made_sum(&self, model: &Model) -> i128 {
        let products = self.made.iter().map(|(unit, quantity)| {
            i128::from(quantity).saturating_mul(i128::from(model.prices.per_million(unit).nanos()))
        });
        products.fold(0, i128::saturating_add)
    }
}

/// Maximum cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Upper bound of the cost, in credits.
    pub amount: Credits,
    /// Output tokens of one answer that the amount covers.
    pub output_cap: u64,
    /// Whether the gateway must send this cap upstream because no other limit applies.
    pub must_clamp: bool,
}

/// One unit of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Unit of the quantity.
    pub unit: Unit,
    /// Maximum quantity of the unit.
    pub quantity: u64,
    /// Price of a million units: the highest that may apply.
    pub price: Credits,
}

impl Item {
    /// Returns the cost of the item alone, without discount.
    pub fn cost(&self) -> Credits {
        Credits::from_price_sum(self.sum(), Discount::NONE)
    }

    fn sum(&self) -> i128 {
        i128::from(self.quantity).saturating_mul(i128::from(self.price.nanos()))
    }
}

impl Quote {
    /// Returns the items of the quote; the amount is their sum, rounded once.
    pub fn items(&self, model: &Model, demand: &Demand) -> Vec<Item> {
        let made = demand.made.iter().map(|(unit, quantity)| Item {
            unit,
            quantity,
            price: model.prices.per_million(unit),
        });
        items(model, demand, self.output_cap)
            .into_iter()
            .chain(made)
            .collect()
    }
}

fn items(model: &Model, demand: &Demand, output_cap: u64) -> [Item; 2] {
    let input = demand.input_bound_of(model);
    [
        Item {
            unit: Unit::Input,
            quantity: input,
            price: model.prices.highest_input(input, demand.caches_for_an_hour),
        },
        Item {
            unit: Unit::Output,
            quantity: output_cap.saturating_mul(demand.n.max(1)),
            price: model.prices.highest_output(input),
        },
    ]
}

/// Limits of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendLimit {
    /// The caller's limit for the cost of the call.
    pub max_cost: Option<Credits>,
    /// Credits that the account can spend.
    pub available: Credits,
}

impl SpendLimit {
    /// Whether both limits cover an amount.
    pub(crate) fn covers(&self, amount: Credits) -> bool {
        amount <= self.minimum()
    }

    fn minimum(&self) -> Credits {
        self.max_cost
            .map_or(self.available, |maximum| maximum.min(self.available))
    }
}

/// Reason why a call has no quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuoteError {
    /// Even with the shortest answer, the call can cost more than the caller allows.
    Allowed {
        /// Minimum `max_cost` for this call.
        minimum: Credits,
    },
    /// The account has too few credits.
    Balance {
        /// Credits that the account needs.
        needed: Credits,
    },
}

/// Returns the quote of a call. The bound holds for every answer that respects the output cap.
pub fn quote(model: &Model, demand: &Demand) -> Quote {
    let ceiling = model.output_ceiling();
    let known_cap = match (demand.max_tokens, ceiling) {
        (Some(asked), Some(ceiling)) => Some(asked.min(ceiling)),
        (asked, ceiling) => asked.or(ceiling),
    };
    let output_cap = known_cap.unwrap_or(FALLBACK_OUTPUT_CAP);
    let must_clamp = known_cap.is_none() && !model.prices.is_free();
    Quote {
        amount: bound(model, demand, output_cap),
        output_cap,
        must_clamp,
    }
}

/// Returns the quote for the largest output that `available` covers, at least [`MIN_CLAMP`] tokens.
/// Only for callers without their own cap: a caller's cap is never changed because of the balance.
pub fn quote_within(model: &Model, demand: &Demand, available: Credits) -> Option<Quote> {
    match demand.max_tokens {
        Some(_) => None,
        None => clamped(model, demand, available, MIN_CLAMP),
    }
}

/// Returns the quote within both limits. A lower `max_cost` reduces the output cap to the largest
/// that it pays for; a balance that is too low then falls back to [`quote_within`].
pub fn quote_covered(model: &Model, demand: &Demand, limit: SpendLimit) -> Result<Quote, QuoteError> {
    let full = quote(model, demand);
    let asked = match limit.max_cost {
        Some(maximum) if maximum < full.amount => {
            let minimum = demand
                .reasoning_budget
                .saturating_add(1)
                .max(MIN_OUTPUT_TOKENS)
                .min(full.output_cap);
            let beyond = || QuoteError::Allowed {
                minimum: bound(model, demand, minimum),
            };
            clamped(model, demand, maximum, minimum).ok_or_else(beyond)?
        }
        _ => full,
    };
    if asked.amount <= limit.available {
        return Ok(asked);
    }
    quote_within(model, demand, limit.available).ok_or(QuoteError::Balance { needed: asked.amount })
}

/// Returns whether counting the text of a request may change the result, if the limits do not cover
/// its full quote. A call that is unaffordable in any case is not counted.
pub fn is_worth_counting(model: &Model, demand: &Demand, limit: SpendLimit) -> bool {
    if model.tokenizer.is_none() {
        return false;
    }
    let fewest = Demand {
        text_bytes: demand.text_bytes / Tokenizer::MAX_TOKEN_BYTES,
        ..*demand
    };
    if quote_covered(model, &fewest, limit).is_err() {
        return false;
    }
    let is_small = bound(model, demand, 0).nanos() < limit.minimum().nanos() / SMALL_SHARE;
    !(is_small && quote_covered(model, demand, limit).is_ok())
}

/// Returns the quote for the largest output that an amount covers, if its cap is at least
/// `minimum`.
fn clamped(model: &Model, demand: &Demand, amount: Credits, minimum: u64) -> Option<Quote> {
    let [input, output] = items(model, demand, 1);
    let left = i128::from(amount.nanos()) * UNITS_PER_PRICE - input.sum() - demand.made_sum(model);
    let affordable = match output.sum() {
        _ if left < 0 => return None,
        0 => u64::MAX,
        price => u64::try_from(left / price).unwrap_or(u64::MAX),
    };
    let output_cap = affordable.min(quote(model, demand).output_cap);
    (output_cap >= minimum).then(|| Quote {
        amount: bound(model, demand, output_cap),
        output_cap,
        must_clamp: true,
    })
}

fn bound(model: &Model, demand: &Demand, output_cap: u64) -> Credits {
    let [input, output] = items(model, demand, output_cap);
    let tokens = input.sum().saturating_add(output.sum());
    Credits::from_price_sum(
        tokens.saturating_add(demand.made_sum(model)),
        model.prices.discount(),
    )
}

/// Returns the estimated usage of a call without a report. Units that are not tokens count as
/// requested.
pub fn estimated_usage(demand: &Demand, output_bytes: u64) -> Usage {
    let output = if demand.is_input_only() {
        0
    } else {
        output_tokens(output_bytes)
    };
    let tokens = Usage::tokens(demand.input_estimate(), output);
    let made = demand.made.iter();
    made.fold(tokens, |usage, (unit, quantity)| usage.with(unit, quantity))
}

/// Returns the estimated number of tokens in the output (bytes ÷ 4).
pub fn output_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}
