//! Quotes: the maximum cost of a call, before it is sent.

use tollgate_catalog::Model;
use tollgate_types::money::{Discount, UNITS_PER_PRICE};
use tollgate_types::{Credits, Tokenizer, Unit, Usage};

/// Maximum number of tokens that a model's chat template adds to one message.
const TOKENS_PER_MESSAGE: u64 = 8;

/// Maximum number of tokens that a model of the catalog charges for one image.
pub const TOKENS_PER_IMAGE: u64 = 50_000;

/// Output cap, in tokens, that is sent upstream if neither the caller nor the catalog sets one:
/// without a cap, the cost has no upper bound. The value is the smallest output limit of the models
/// that OpenAI has sold as chat models, and leaves half of an 8k context to the input.
pub const FALLBACK_OUTPUT_CAP: u64 = 4_096;

/// Minimum output cap, in tokens, of a quote that is limited by the balance.
pub const MIN_CLAMP: u64 = 1_024;

/// Minimum output cap, in tokens, of a quote that is limited by `max_cost`: some upstreams refuse
/// smaller ones.
pub const MIN_OUTPUT_TOKENS: u64 = 16;

/// Absolute margin of a counted text, in tokens: providers may count more tokens than the published
/// tokenizer.
const MARGIN_PER_TEXT: u64 = 8;

/// Relative margin of a counted text: one token in 16.
const MARGIN_SHARE: u64 = 16;

/// Divisor of the spend limit. If the input, by its bytes, costs less than this part of the limit,
/// counting is skipped, because the affordable output cap would hardly rise.
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
    /// Returns a lower bound of the number of tokens that a provider counts: the tokenizer's count
    /// less the margins of [`Demand::counted`].
    pub fn fewest(&self) -> u64 {
        self.tokens.saturating_sub(self.margin())
    }

    fn margin(&self) -> u64 {
        (self.tokens / MARGIN_SHARE).saturating_add(self.texts.saturating_mul(MARGIN_PER_TEXT))
    }
}

/// Size of a request, as far as it determines the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Size of the request without inline media, in bytes. A token has at least one byte.
    pub text_bytes: u64,
    /// Number of input tokens, for requests that send tokens instead of text.
    pub tokens: u64,
    /// Number of messages of the conversation, or of texts to embed.
    pub messages: u64,
    /// Number of inputs that the model reads separately, each within its context window. Zero if no
    /// window applies.
    pub inputs: u64,
    /// Size of the inline media other than images, in bytes.
    pub media_bytes: u64,
    /// Number of input images.
    pub images: u64,
    /// The caller's cap on the output tokens of one choice; zero for requests without output, such
    /// as embeddings.
    pub max_tokens: Option<u64>,
    /// Number of output tokens reserved for reasoning. Upstreams reject an output cap that is not
    /// larger.
    pub reasoning_budget: u64,
    /// Number of requested choices.
    pub n: u64,
    /// Whether the provider may write some of the input to its one-hour cache.
    pub caches_for_an_hour: bool,
    /// Maximum output in units other than tokens.
    pub made: Usage,
}

impl Demand {
    /// Returns an upper bound of the number of input tokens, for any tokenizer.
    pub fn input_bound(&self) -> u64 {
        let framing = self.messages.saturating_mul(TOKENS_PER_MESSAGE);
        let image_tokens = self.images.saturating_mul(TOKENS_PER_IMAGE);
        self.text_bytes
            .saturating_add(self.tokens)
            .saturating_add(framing)
            .saturating_add(self.media_bytes)
            .saturating_add(image_tokens)
    }

    /// Returns [`Demand::input_bound`], or [`Demand::window`] if that is smaller.
    pub fn input_bound_of(&self, model: &Model) -> u64 {
        let window = self.window(model).unwrap_or(u64::MAX);
        self.input_bound().min(window)
    }

    /// Returns the maximum number of input tokens that the model's context window allows for all
    /// inputs together; `None` if no window is known or applies.
    pub fn window(&self, model: &Model) -> Option<u64> {
        let inputs = Some(self.inputs).filter(|inputs| *inputs > 0)?;
        Some(model.context_window?.saturating_mul(inputs))
    }

    /// Returns the estimated number of input tokens (bytes ÷ 4), for token reservations and for
    /// charges without a usage report.
    pub fn input_estimate(&self) -> u64 {
        self.text_bytes
            .div_ceil(4)
            .saturating_add(self.tokens)
            .saturating_add(self.media_bytes.div_ceil(4))
            .min(self.input_bound())
    }

    /// Returns the demand with the bytes of these texts replaced by their tokens plus a margin, at
    /// most their bytes. The other bounds stay unchanged.
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

    /// Returns Σ quantity × price of the units other than tokens.
    fn made_sum(&self, model: &Model) -> i128 {
        let products = self.made.iter().map(|(unit, quantity)| {
            i128::from(quantity).saturating_mul(i128::from(model.prices.per_million(unit).nanos()))
        });
        products.fold(0, i128::saturating_add)
    }
}

/// Upper bound of the cost of a call, with the output cap that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Upper bound of the cost, in credits.
    pub amount: Credits,
    /// Maximum number of output tokens of one choice that the amount covers.
    pub output_cap: u64,
    /// Whether the gateway must send this cap upstream, because the output could otherwise exceed
    /// the cap.
    pub must_clamp: bool,
}

/// One unit of a quote, such as input tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Unit of the quantity.
    pub unit: Unit,
    /// Maximum quantity of the unit.
    pub quantity: u64,
    /// Price per million units: the highest price that may apply.
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
    /// Returns the items of the quote. The amount is the sum of their unrounded costs after the
    /// discount, rounded up once.
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
    /// The caller's limit for the cost of the call; `None` for no limit.
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
    /// The call can cost more than the caller's limit, even with the minimum output cap.
    Allowed {
        /// Lowest `max_cost` that covers the call with that cap.
        minimum: Credits,
    },
    /// The account has too few credits for the call.
    Balance {
        /// Credits that the call needs.
        needed: Credits,
    },
}

/// Returns the quote of a call. The amount bounds the cost of every response that respects the
/// output cap.
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

/// Returns the quote for the largest output that `available` covers; `None` if that is less than
/// [`MIN_CLAMP`] tokens or the caller sets an output cap. The balance never changes a caller's cap.
pub fn quote_within(model: &Model, demand: &Demand, available: Credits) -> Option<Quote> {
    match demand.max_tokens {
        Some(_) => None,
        None => clamped(model, demand, available, MIN_CLAMP),
    }
}

/// Returns the quote within both limits. If `max_cost` is lower than the full amount, the output
/// cap is reduced to the largest that it pays for. If the balance is too low, the quote is that of
/// [`quote_within`].
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

/// Whether counting the text of a request may change its quote, if the limits do not cover the full
/// amount. The text of a call that is unaffordable in any case is not worth counting.
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

/// Returns the quote for the largest output that an amount covers; `None` if its cap is less than
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

/// Returns the estimated usage of a call without a usage report. Units other than tokens count as
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
