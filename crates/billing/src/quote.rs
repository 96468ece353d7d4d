//! The most that a call can cost, before it is made.

use tollgate_catalog::Model;
use tollgate_types::{Credits, Tokenizer, Usage};

/// Tokens that wrap one message in a model's chat template.
const TOKENS_PER_MESSAGE: u64 = 8;

/// The most tokens that one picture is charged for by the models of the catalog.
pub const TOKENS_PER_IMAGE: u64 = 50_000;

/// The cap that is sent upstream when neither the caller nor the catalog knows one: without a cap there is no bound.
pub const FALLBACK_OUTPUT_CAP: u64 = 32_768;

/// The least cap that a caller who sent none is given when the balance does not cover more.
pub const LEAST_CLAMP: u64 = 1_024;

/// Tokens by which each counted text may be more for its provider than for the tokenizer that is published.
const MARGIN_PER_TEXT: u64 = 8;

/// The same as a share of its tokens: one in so many.
const MARGIN_SHARE: u64 = 16;

/// Counting is left out where the input, by its bytes, takes less than this share of the balance, one in so many: the cap
/// on output that the balance covers would hardly rise.
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
    /// Answers asked for.
    pub n: u64,
    /// Whether some of the input may be kept in the provider's cache for an hour.
    pub caches_for_an_hour: bool,
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

    /// Whether nothing but input is charged.
    pub fn is_input_only(&self) -> bool {
        self.max_tokens == Some(0)
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
/// cap of their own: a caller's cap is never changed.
pub fn quote_within(model: &Model, demand: &Demand, available: Credits) -> Option<Quote> {
    if demand.max_tokens.is_some() {
        return None;
    }
    let input_only = bound(model, demand, 0);
    let for_output = i128::from(available.checked_sub(input_only)?.nanos());
    let per_token_in_millionths = i128::from(model.prices.highest_output(demand.input_bound()).nanos())
        .max(1)
        * i128::from(demand.n.max(1));
    // One nano-credit is kept back for the rounding of the sum.
    let affordable = ((for_output - 1).max(0) * 1_000_000) / per_token_in_millionths;
    let affordable = u64::try_from(affordable).unwrap_or(0);
    let full = quote(model, demand).output_cap;
    let output_cap = affordable.min(full);
    if output_cap < LEAST_CLAMP {
        return None;
    }
    Some(Quote {
        amount: bound(model, demand, output_cap),
        output_cap,
        must_clamp: true,
    })
}

/// The quote that `available` covers: the full one, or the largest that there is for callers that set no cap.
pub fn quote_covered(model: &Model, demand: &Demand, available: Credits) -> Option<Quote> {
    let full = quote(model, demand);
    if full.amount <= available {
        return Some(full);
    }
    quote_within(model, demand, available)
}

/// Whether counting the text of a request whose full quote is not covered may change what the caller gets. Nobody who
/// cannot pay in any case makes the gateway count.
pub fn is_worth_counting(model: &Model, demand: &Demand, available: Credits) -> bool {
    if model.tokenizer.is_none() {
        return false;
    }
    let fewest = Demand {
        text_bytes: demand.text_bytes / Tokenizer::LONGEST_TOKEN,
        ..*demand
    };
    if quote_covered(model, &fewest, available).is_none() {
        return false;
    }
    let is_small = bound(model, demand, 0).nanos() < available.nanos() / SMALL_SHARE;
    !(is_small && quote_within(model, demand, available).is_some())
}

fn bound(model: &Model, demand: &Demand, output_cap: u64) -> Credits {
    let input_tokens = demand.input_bound();
    let input = i128::from(input_tokens)
        * i128::from(
            model
                .prices
                .highest_input(input_tokens, demand.caches_for_an_hour)
                .nanos(),
        );
    let output_tokens = i128::from(output_cap) * i128::from(demand.n.max(1));
    let output = output_tokens.saturating_mul(i128::from(model.prices.highest_output(input_tokens).nanos()));
    Credits::from_price_sum(
        input.saturating_add(output),
        tollgate_types::money::Discount::NONE,
    )
}

/// A likely usage for a call that ended without a report.
pub fn estimated_usage(demand: &Demand, output_bytes: u64) -> Usage {
    let output = if demand.is_input_only() {
        0
    } else {
        output_bytes.div_ceil(4)
    };
    Usage::tokens(demand.input_estimate(), output)
}
