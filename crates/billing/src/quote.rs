//! The most that a call can cost, before it is made.

use tollgate_catalog::Model;
use tollgate_types::money::{Discount, UNITS_PER_PRICE};
use tollgate_types::{Credits, Tokenizer, Unit, Usage};

/// Tokens that wrap one message in a model's chat template.
const TOKENS_PER_MESSAGE: u64 = 8;

/// The most tokens that one picture is charged for by the models of the catalog.
pub const TOKENS_PER_IMAGE: u64 = 50_000;

/// The cap that is sent upstream when neither the caller nor the catalog knows one: without a cap there is no bound.
pub const FALLBACK_OUTPUT_CAP: u64 = 32_768;

/// The least cap that a caller who sent none is given when the balance does not cover more.
pub const LEAST_CLAMP: u64 = 1_024;

/// The least cap that a caller who says what a call may cost is given: some upstreams take no smaller one.
pub const LEAST_OUTPUT: u64 = 16;

/// Tokens by which each counted text may be more for its provider than for the tokenizer that is published.
const MARGIN_PER_TEXT: u64 = 8;

/// The same as a share of its tokens: one in so many.
const MARGIN_SHARE: u64 = 16;

/// Counting is left out where the input, by its bytes, takes less than this share of the room, one in so many: the cap on
/// output that there is room for would hardly rise.
const SMALL_SHARE: i64 = 16;

/// Texts of a request that a tokenizer has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CountedText {
    /// How many.
    pub texts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their tokens.
    pub tokens: u64,
}

/// What a request asks for, as far as its cost goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of the request without inline media. A token is never less than a byte.
    pub text_bytes: u64,
    /// Input that came as tokens and not as text.
    pub tokens: u64,
    /// Messages of the conversation, or texts that are embedded.
    pub messages: u64,
    /// Bytes of inline media other than pictures.
    pub media_bytes: u64,
    /// Pictures.
    pub images: u64,
    /// The caller's cap on output tokens of one answer; zero where there is no output, as for embeddings.
    pub max_tokens: Option<u64>,
    /// Output tokens that the request sets apart for reasoning: an upstream refuses a cap that leaves nothing besides.
    pub reasoning_budget: u64,
    /// Answers asked for.
    pub n: u64,
    /// Whether some of the input may be kept in the provider's cache for an hour.
    pub caches_for_an_hour: bool,
    /// What is made at the most, in classes that are no tokens.
    pub made: Usage,
}

impl Demand {
    /// A bound on the input tokens that holds whatever the tokenizer.
    pub fn input_bound(&self) -> u64 {
        let framing = self.messages.saturating_mul(TOKENS_PER_MESSAGE);
        let pictures = self.images.saturating_mul(TOKENS_PER_IMAGE);
        self.text_bytes
            .saturating_add(self.tokens)
            .saturating_add(framing)
            .saturating_add(self.media_bytes)
            .saturating_add(pictures)
    }

    /// A likely number of input tokens: what limits reserve, and what is charged when no report comes.
    pub fn input_estimate(&self) -> u64 {
        self.text_bytes
            .div_ceil(4)
            .saturating_add(self.tokens)
            .saturating_add(self.media_bytes.div_ceil(4))
            .min(self.input_bound())
    }

    /// The same with these texts of it bounded by their tokens, and everything else by its bytes as before. A provider
    /// may count a little more than the tokenizer, and never more than the bytes.
    pub fn counted(self, text: CountedText) -> Demand {
        let margin = (text.tokens / MARGIN_SHARE).saturating_add(text.texts.saturating_mul(MARGIN_PER_TEXT));
        let tokens = text.tokens.saturating_add(margin).min(text.bytes);
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

    /// What of it is no token, at its price.
    fn made_sum(&self, model: &Model) -> i128 {
        let products = self.made.iter().map(|(unit, quantity)| {
            i128::from(quantity).saturating_mul(i128::from(model.prices.per_million(unit).nanos()))
        });
        products.fold(0, i128::saturating_add)
    }
}

/// The most that a call can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Upper bound of the cost.
    pub amount: Credits,
    /// Output tokens of one answer that it covers.
    pub output_cap: u64,
    /// Whether that cap must be sent upstream because nobody else sets one.
    pub must_clamp: bool,
}

/// One class of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which class.
    pub unit: Unit,
    /// The most of it.
    pub quantity: u64,
    /// Nano-credits for a million, at the dearest that may apply.
    pub price: Credits,
}

impl Item {
    /// What they cost by themselves, at list.
    pub fn cost(&self) -> Credits {
        Credits::from_price_sum(self.sum(), Discount::NONE)
    }

    fn sum(&self) -> i128 {
        i128::from(self.quantity).saturating_mul(i128::from(self.price.nanos()))
    }
}

impl Quote {
    /// What the amount is made of: it is the sum of these, rounded once.
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
    let input = demand.input_bound();
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

/// What a call may be held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The most that the caller allows the call to cost.
    pub max_cost: Option<Credits>,
    /// What the account can spend.
    pub available: Credits,
}

impl Room {
    /// Whether there is room for all of an amount.
    pub(crate) fn covers(&self, amount: Credits) -> bool {
        amount <= self.least()
    }

    fn least(&self) -> Credits {
        self.max_cost
            .map_or(self.available, |most| most.min(self.available))
    }
}

/// Why a call has no quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooDear {
    /// It can cost more than the caller allows, however short its answer is.
    Allowed {
        /// The least that would do.
        least: Credits,
    },
    /// The account cannot pay it.
    Balance {
        /// What it would have to have.
        needed: Credits,
    },
}

/// Quotes a call. The bound holds for every answer that respects the output cap.
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

/// The quote for the largest output that `available` covers, when that is worth having. Only for callers that set no
/// cap of their own: a caller's cap is never changed for want of credits.
pub fn quote_within(model: &Model, demand: &Demand, available: Credits) -> Option<Quote> {
    match demand.max_tokens {
        Some(_) => None,
        None => clamped(model, demand, available, LEAST_CLAMP),
    }
}

/// The quote that there is room for. Who allows a call to cost so much and no more gets the largest output that it pays
/// for; who cannot pay what is left gets what [`quote_within`] says.
pub fn quote_covered(model: &Model, demand: &Demand, room: Room) -> Result<Quote, TooDear> {
    let full = quote(model, demand);
    let asked = match room.max_cost {
        Some(most) if most < full.amount => {
            let least = demand
                .reasoning_budget
                .saturating_add(1)
                .max(LEAST_OUTPUT)
                .min(full.output_cap);
            let beyond = || TooDear::Allowed {
                least: bound(model, demand, least),
            };
            clamped(model, demand, most, least).ok_or_else(beyond)?
        }
        _ => full,
    };
    if asked.amount <= room.available {
        return Ok(asked);
    }
    quote_within(model, demand, room.available).ok_or(TooDear::Balance { needed: asked.amount })
}

/// Whether counting the text of a request may change what the caller gets, when there is no room for its full quote.
/// Nobody who cannot pay in any case makes the gateway count.
pub fn is_worth_counting(model: &Model, demand: &Demand, room: Room) -> bool {
    if model.tokenizer.is_none() {
        return false;
    }
    let fewest = Demand {
        text_bytes: demand.text_bytes / Tokenizer::LONGEST_TOKEN,
        ..*demand
    };
    if quote_covered(model, &fewest, room).is_err() {
        return false;
    }
    let is_small = bound(model, demand, 0).nanos() < room.least().nanos() / SMALL_SHARE;
    !(is_small && quote_covered(model, demand, room).is_ok())
}

/// The quote for the largest output that an amount covers, if that is at least so much.
fn clamped(model: &Model, demand: &Demand, amount: Credits, least: u64) -> Option<Quote> {
    let [input, output] = items(model, demand, 1);
    let left = i128::from(amount.nanos()) * UNITS_PER_PRICE - input.sum() - demand.made_sum(model);
    let affordable = match output.sum() {
        _ if left < 0 => return None,
        0 => u64::MAX,
        price => u64::try_from(left / price).unwrap_or(u64::MAX),
    };
    let output_cap = affordable.min(quote(model, demand).output_cap);
    (output_cap >= least).then(|| Quote {
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

/// A likely usage for a call that ended without a report. What is no token is as much as was asked for.
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

/// A likely number of tokens in so many bytes of output.
pub fn output_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}
