//! List prices: nano-credits per 1,000,000 units of a class. A usage row names the version of its
//! prices.

use std::fmt;

use crate::money::{Credits, Discount};
use crate::usage::{Unit, Usage};

type Table = [Option<Credits>; Unit::ALL.len()];

/// Prices of one model by class. A class without its own price has the price of its parent class:
/// output for reasoning and audio output, input for the other input classes. Without its own price,
/// input written to a one-hour cache costs twice the input price, and audio read from a cache costs
/// the price of `cache_read`. A class that does not count tokens is free if it has no price.
///
/// Some providers charge higher prices for the whole request if its prompt is long. Such a price is
/// written as `class>tokens`: `input>272000` is the input price for prompts of more than 272,000
/// tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prices {
    per_million: Table,
    long: Option<LongPrompt>,
    /// Discount on all usage. The discount is not part of the price list: two calls with the same
    /// list can have different discounts.
    discount: Discount,
}

/// Prices of requests whose prompt has more than `above` tokens. The price of a class without an
/// entry follows from the long-prompt price of its parent class ([`Prices::price`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LongPrompt {
    above: u64,
    per_million: Table,
}

/// Error: the text is not a price name of the form `class` or `class>tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceNameError(String);

impl fmt::Display for PriceNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Unit::ALL.iter().map(|unit| unit.as_str()).collect();
        let known = known.join(", ");
        write!(
            f,
            "'{}' is not a price name: use a class ({known}), or class>tokens for a token class, with the same number of tokens in all such prices of the model",
            self.0
        )
    }
}

impl std::error::Error for PriceNameError {}

impl Prices {
    /// Returns prices that make all usage free.
    pub fn free() -> Prices {
        Prices::default()
            .with(Unit::Input, Credits::ZERO)
            .with(Unit::Output, Credits::ZERO)
    }

    /// Sets the price of a class, in credits per million units.
    #[must_use]
    pub fn with(mut self, unit: Unit, per_million: Credits) -> Prices {
        self.per_million[unit as usize] = Some(per_million);
        self
    }

    /// Sets a price by its written name, `class` or `class>tokens`. Fails if the name is invalid or
    /// its number of tokens differs from that of an earlier long-prompt price.
    pub fn with_named(mut self, name: &str, per_million: Credits) -> Result<Prices, PriceNameError> {
        let unknown = || PriceNameError(name.chars().take(60).collect());
        let Some((class, above)) = name.split_once('>') else {
            return Ok(self.with(Unit::parse(name).ok_or_else(unknown)?, per_million));
        };
        let unit = Unit::parse(class)
            .filter(|unit| unit.is_token())
            .ok_or_else(unknown)?;
        let above: u64 = above.parse().map_err(|_| unknown())?;
        let long = self.long.get_or_insert(LongPrompt {
            above,
            per_million: Table::default(),
        });
        if long.above != above {
            return Err(unknown());
        }
        long.per_million[unit as usize] = Some(per_million);
        Ok(self)
    }

    /// Returns the prices with this discount; the list prices stay unchanged.
    #[must_use]
    pub fn at(self, discount: Discount) -> Prices {
        Prices { discount, ..self }
    }

    /// Returns the discount on all usage.
    pub fn discount(&self) -> Discount {
        self.discount
    }

    /// Returns all prices with their written names, in the order of the classes.
    pub fn entries(&self) -> impl Iterator<Item = (String, Credits)> + '_ {
        let plain = Unit::ALL
            .into_iter()
            .filter_map(|unit| Some((unit.as_str().to_owned(), self.listed(unit)?)));
        let long = self.long.iter().flat_map(|long| {
            let name = |unit: Unit| format!("{}>{}", unit.as_str(), long.above);
            Unit::ALL
                .into_iter()
                .filter_map(move |unit| Some((name(unit), long.per_million[unit as usize]?)))
        });
        plain.chain(long)
    }

    /// Returns the listed price of a class for prompts that are not long; `None` if it has none.
    pub fn listed(&self, unit: Unit) -> Option<Credits> {
        self.per_million[unit as usize]
    }

    /// Returns the effective price of a class for prompts that are not long, in credits per million
    /// units.
    pub fn per_million(&self, unit: Unit) -> Credits {
        self.price(unit, 0)
    }

    /// Returns the number of input tokens above which long-prompt prices apply, if such prices
    /// exist.
    pub fn long_above(&self) -> Option<u64> {
        self.long.map(|long| long.above)
    }

    /// Returns the effective price of a class in a request with this many input tokens. In a long
    /// request, a class without its own long-prompt price rises in proportion to its parent class.
    pub fn price(&self, unit: Unit, input_tokens: u64) -> Credits {
        if !unit.is_token() {
            return self.listed(unit).unwrap_or(Credits::ZERO);
        }
        let long = self.long.filter(|long| input_tokens > long.above);
        let has_own =
            self.listed(unit).is_some() || long.is_some_and(|long| long.per_million[unit as usize].is_some());
        if unit == Unit::CacheReadAudio && !has_own {
            return self.price(Unit::CacheRead, input_tokens);
        }
        let parent = if unit.is_input() {
            Unit::Input
        } else {
            Unit::Output
        };
        let plain_parent = self.listed(parent).unwrap_or(Credits::ZERO);
        let plain = self.listed(unit).unwrap_or_else(|| unlisted(unit, plain_parent));
        let Some(long) = long else {
            return plain;
        };
        match (long.per_million[unit as usize], long.per_million[parent as usize]) {
            (Some(own), _) => own,
            (None, Some(long_price)) if !plain_parent.is_zero() => {
                in_proportion(plain, long_price, plain_parent)
            }
            (None, Some(long_price)) => unlisted(unit, long_price),
            (None, None) => plain,
        }
    }

    /// Whether all listed prices are zero. `true` if no price is listed.
    pub fn is_free(&self) -> bool {
        self.entries().all(|(_, price)| price.is_zero())
    }

    /// Returns the highest price of any input class for a prompt of at most this many tokens: an
    /// upper bound for input whose class is not known yet. The price of the one-hour cache counts
    /// only if the request uses that cache.
    pub fn highest_input(&self, max_prompt_tokens: u64, caches_for_an_hour: bool) -> Credits {
        let plain = self.highest(true, max_prompt_tokens);
        match caches_for_an_hour {
            true => plain.max(self.either(Unit::CacheWriteHour, max_prompt_tokens)),
            false => plain,
        }
    }

    /// Returns the highest price of any output class for a prompt of at most this many tokens.
    pub fn highest_output(&self, max_prompt_tokens: u64) -> Credits {
        self.highest(false, max_prompt_tokens)
    }

    fn highest(&self, input: bool, max_prompt_tokens: u64) -> Credits {
        let of_kind = |unit: &Unit| unit.is_input() == input && *unit != Unit::CacheWriteHour;
        let prices = Unit::TOKENS.into_iter().filter(of_kind);
        let prices = prices.map(|unit| self.either(unit, max_prompt_tokens));
        prices.max().unwrap_or(Credits::ZERO)
    }

    /// Returns the higher of the prices for a short prompt and for a prompt of this many tokens.
    fn either(&self, unit: Unit, max_prompt_tokens: u64) -> Credits {
        self.price(unit, 0).max(self.price(unit, max_prompt_tokens))
    }

    /// Returns the cost of a usage after the discount, rounded up once.
    pub fn cost(&self, usage: &Usage) -> Credits {
        let input_tokens = usage.total_input();
        let sum = usage
            .iter()
            .map(|(unit, quantity)| {
                i128::from(quantity).saturating_mul(i128::from(self.price(unit, input_tokens).nanos()))
            })
            .fold(0_i128, i128::saturating_add);
        Credits::from_price_sum(sum, self.discount)
    }
}

/// Returns the price of a class without its own price, from the price of its parent class.
fn unlisted(unit: Unit, parent: Credits) -> Credits {
    match unit {
        Unit::CacheWriteHour => Credits::from_nanos(parent.nanos().saturating_mul(2)),
        _ => parent,
    }
}

/// Returns `price × to / from`, rounded up.
fn in_proportion(price: Credits, to: Credits, from: Credits) -> Credits {
    let (price, to, from) = (
        i128::from(price.nanos()),
        i128::from(to.nanos()),
        i128::from(from.nanos()),
    );
    let scaled = (price * to + from - 1) / from;
    Credits::from_nanos(i64::try_from(scaled).unwrap_or(i64::MAX))
}

/// Permanent id of one set of prices of a model: the first 64 bits of the SHA-256 of model and
/// prices. Different prices have different versions, so the prices of a version never change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PriceVersion(u64);

impl PriceVersion {
    /// Creates a version from its 64-bit value.
    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    /// Returns the 64-bit value.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Parses the text form of a version; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("pv_").filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for PriceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pv_{:016x}", self.0)
    }
}

impl fmt::Debug for PriceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(text: &str) -> Credits {
        text.parse().unwrap()
    }

    #[test]
    fn cached_tokens_use_the_price_of_their_class() {
        let prices = Prices::default()
            .with(Unit::Input, credits("2.50"))
            .with(Unit::CacheRead, credits("0.25"))
            .with(Unit::Output, credits("10"));
        let usage = Usage::tokens(1_000, 500)
            .with(Unit::CacheRead, 9_000)
            .with(Unit::Reasoning, 500);
        assert_eq!(prices.cost(&usage), credits("0.01475"));
        assert_eq!(prices.per_million(Unit::Reasoning), credits("10"));
        assert_eq!(prices.per_million(Unit::CacheWrite), credits("2.50"));
        assert_eq!(prices.highest_input(1, false), credits("2.50"));
    }

    #[test]
    fn long_prompt_prices_apply_to_the_whole_request() {
        let named = [
            ("input", "2"),
            ("cache_read", "0.2"),
            ("output", "10"),
            ("input>1000", "4"),
            ("output>1000", "15"),
        ];
        let prices = named.iter().try_fold(Prices::default(), |prices, (name, price)| {
            prices.with_named(name, credits(price))
        });
        let prices = prices.unwrap();
        assert_eq!(prices.cost(&Usage::tokens(1_000, 100)), credits("0.003"));
        assert_eq!(prices.cost(&Usage::tokens(1_001, 100)), credits("0.005504"));
        let cached = Usage::tokens(501, 0).with(Unit::CacheRead, 500);
        assert_eq!(
            prices.cost(&cached),
            credits("0.002204"),
            "the cache rises with the input"
        );
        assert_eq!(prices.highest_input(1_000, false), credits("2"));
        assert_eq!(prices.highest_output(1_001), credits("15"));
        let again = prices
            .entries()
            .try_fold(Prices::default(), |prices, (name, price)| {
                prices.with_named(&name, price)
            });
        assert_eq!(again.unwrap(), prices);
        for bad in ["inputs", "input>", "input>x", ">5", "input>2000"] {
            assert!(prices.with_named(bad, Credits::ZERO).is_err(), "{bad}");
        }
    }

    #[test]
    fn hourly_cache_write_costs_its_price_or_twice_the_input() {
        let prices = Prices::default()
            .with(Unit::Input, credits("4"))
            .with(Unit::CacheWrite, credits("5"));
        let usage = Usage::tokens(0, 0).with(Unit::CacheWriteHour, 1_000);
        assert_eq!(prices.cost(&usage), credits("0.008"));
        assert_eq!(
            prices.highest_input(1, false),
            credits("5"),
            "who asks for none holds for none"
        );
        assert_eq!(prices.highest_input(1, true), credits("8"));
        let named = prices.with_named("cache_write_1h", credits("7")).unwrap();
        assert_eq!(named.cost(&usage), credits("0.007"));
        assert_eq!(named.highest_input(1, true), credits("7"));
        let long = prices.with_named("input>10", credits("6")).unwrap();
        assert_eq!(long.cost(&usage), credits("0.012"));
        assert!(Prices::free().with(Unit::CacheRead, Credits::ZERO).is_free());
    }

    #[test]
    fn cached_audio_costs_its_price_or_that_of_cached_input() {
        let usage = Usage::ZERO.with(Unit::CacheReadAudio, 1_000_000);
        let plain = Prices::default().with(Unit::Input, credits("4"));
        assert_eq!(plain.cost(&usage), credits("4"));
        let cached = plain.with(Unit::CacheRead, credits("1"));
        assert_eq!(cached.cost(&usage), credits("1"));
        // The class follows `cache_read` in long prompts too, in proportion or with a listed price.
        let long = cached.with_named("input>10", credits("8")).unwrap();
        assert_eq!(long.cost(&usage), credits("2"));
        let long = long.with_named("cache_read>10", credits("3")).unwrap();
        assert_eq!(long.cost(&usage), credits("3"));
        // A separate price rises with the input.
        let own = long.with(Unit::CacheReadAudio, credits("0.5"));
        assert_eq!(own.per_million(Unit::CacheReadAudio), credits("0.5"));
        assert_eq!(own.cost(&usage), credits("1"));
        let only_long = long.with_named("cache_read_audio>10", credits("9")).unwrap();
        assert_eq!(only_long.per_million(Unit::CacheReadAudio), credits("1"));
        assert_eq!(only_long.cost(&usage), credits("9"));
        assert_eq!(only_long.highest_input(11, false), credits("9"));
    }

    #[test]
    fn image_tokens_cost_their_price_or_that_of_input() {
        let usage = Usage::ZERO.with(Unit::InputImage, 1_000_000);
        let prices = Prices::default().with(Unit::Input, credits("4"));
        assert_eq!(prices.cost(&usage), credits("4"));
        let own = prices.with_named("input_image", credits("5")).unwrap();
        assert_eq!(own.cost(&usage), credits("5"));
        assert_eq!(own.highest_input(1, false), credits("5"));
        let long = own.with_named("input_image>10", credits("6")).unwrap();
        assert_eq!(long.cost(&usage), credits("6"));
    }

    #[test]
    fn non_token_units_have_their_own_price_or_none() {
        let prices = Prices::default()
            .with(Unit::Input, credits("5"))
            .with(Unit::Output, credits("40"))
            .with(Unit::Image, credits("0.04"))
            .with_named("output>10", credits("60"))
            .unwrap();
        let two_and_a_half = Usage::ZERO.with(Unit::Image, 2_500_000);
        assert_eq!(prices.cost(&two_and_a_half), credits("0.1"));
        assert_eq!(prices.per_million(Unit::Video), Credits::ZERO);
        assert_eq!(
            prices.highest_output(1),
            credits("40"),
            "images are not output tokens"
        );
        assert_eq!(
            (two_and_a_half.total(), two_and_a_half.has_non_tokens()),
            (0, true)
        );
        assert!(prices.with_named("image>10", Credits::ZERO).is_err());
    }

    #[test]
    fn version_text_round_trips() {
        let version = PriceVersion::from_u64(0xdead_beef);
        assert_eq!(PriceVersion::parse(&version.to_string()), Some(version));
        assert_eq!(PriceVersion::parse("pv_12"), None);
    }
}
