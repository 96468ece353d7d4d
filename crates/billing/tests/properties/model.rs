//! Generators of models, requests and usage.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tollgate_billing::{Demand, Quote};
use tollgate_catalog::{Model, ModelKind, StructuredOutput};
use tollgate_types::{Credits, PriceVersion, Prices, Unit, Usage};

/// Returns a model with these prices and bounds.
pub fn model(prices: Prices, max_output_tokens: Option<u64>, context_window: Option<u64>) -> Model {
    Model {
        id: "maker/model".into(),
        display_name: String::new(),
        kind: ModelKind::Chat,
        release_date: None,
        context_window,
        dimensions: None,
        media: Default::default(),
        research: None,
        report: None,
        voice: None,
        live: false,
        max_output_tokens,
        input: Vec::new(),
        output: Vec::new(),
        structured_output: StructuredOutput::None,
        unknown: Default::default(),
        tools: false,
        reasoning: false,
        tokenizer: None,
        framing: None,
        simulated: true,
        prices,
        price_version: PriceVersion::from_u64(7),
        not_covered_by: Default::default(),
        candidates: Vec::new(),
    }
}

/// Generates prices from zero to the maximum, mostly realistic ones.
fn price() -> impl Strategy<Value = Credits> {
    prop_oneof![
        1 => Just(0),
        6 => 1..100_000_000_000_i64,
        1 => 1..1_000_i64,
        1 => 0..=i64::MAX,
    ]
    .prop_map(Credits::from_nanos)
}

/// Generates any set of prices, including those of long prompts.
pub fn prices() -> impl Strategy<Value = Prices> {
    let plain = vec(option::of(price()), Unit::ALL.len());
    let long = vec(option::weighted(0.3, price()), Unit::TOKENS.len());
    (plain, long, 0..300_000_u64).prop_map(|(plain, long, above)| {
        let mut prices = Prices::default();
        for (unit, price) in Unit::ALL.into_iter().zip(plain) {
            prices = price.map_or(prices, |price| prices.with(unit, price));
        }
        for (unit, price) in Unit::TOKENS.into_iter().zip(long) {
            if let Some(price) = price {
                let name = format!("{unit}>{above}", unit = unit.as_str());
                prices = prices.with_named(&name, price).unwrap();
            }
        }
        prices
    })
}

/// Generates models with any prices and optional bounds.
pub fn any_model() -> impl Strategy<Value = Model> {
    let tokens = || option::of(prop_oneof![1..4_000_u64, 1..2_000_000_u64]);
    (prices(), tokens(), tokens()).prop_map(|(prices, max, window)| model(prices, max, window))
}

/// Generates demands of any size.
pub fn demand() -> impl Strategy<Value = Demand> {
    (
        2..1_000_000_u64,
        prop_oneof![4 => Just(0), 1 => 0..1_000_000_u64],
        1..1_000_u64,
        prop_oneof![4 => Just(0), 1 => 0..20_000_000_u64],
        prop_oneof![4 => Just(0), 1 => 0..50_u64],
        option::of(prop_oneof![1 => Just(0), 4 => 1..100_000_u64, 4 => 1..=u64::from(u32::MAX)]),
        1..=128_u64,
        (any::<bool>(), made()),
    )
        .prop_map(
            |(
                text_bytes,
                tokens,
                messages,
                media_bytes,
                images,
                max_tokens,
                n,
                (caches_for_an_hour, made),
            )| Demand {
                text_bytes,
                tokens,
                messages,
                inputs: 0,
                media_bytes,
                images,
                max_tokens,
                reasoning_budget: 0,
                n,
                caches_for_an_hour,
                made,
            },
        )
}

/// Generates usage in units other than tokens, mostly none.
fn made() -> impl Strategy<Value = Usage> {
    let some = vec(
        prop_oneof![1 => Just(0), 1 => 0..10_000_000_000_u64],
        Unit::NON_TOKENS.len(),
    );
    let some = some.prop_map(|quantities| {
        let classes = Unit::NON_TOKENS.into_iter().zip(quantities);
        classes.fold(Usage::ZERO, |usage, (unit, quantity)| usage.with(unit, quantity))
    });
    prop_oneof![3 => Just(Usage::ZERO), 1 => some]
}

/// Generates shares of a bound, one for each unit. The largest number stands for the rest of the
/// bound.
pub fn shares() -> impl Strategy<Value = Vec<u64>> {
    let share = prop_oneof![2 => Just(0), 1 => Just(u64::MAX), 3 => any::<u64>()];
    vec(share, Unit::ALL.len())
}

/// Returns a usage within the bounds of a quote.
pub fn usage_within(demand: &Demand, quote: &Quote, shares: &[u64]) -> Usage {
    let mut input = demand.input_bound();
    let mut output = quote.output_cap * demand.n;
    let mut usage = Usage::ZERO;
    // Only a request that uses the one-hour cache is charged for it.
    let is_asked = |unit: &Unit| *unit != Unit::CacheWriteHour || demand.caches_for_an_hour;
    for (unit, share) in Unit::ALL
        .into_iter()
        .zip(shares)
        .filter(|(unit, _)| is_asked(unit))
    {
        let mut made = demand.made.get(unit);
        let left = match (unit.is_token(), unit.is_input()) {
            (false, _) => &mut made,
            (true, true) => &mut input,
            (true, false) => &mut output,
        };
        let part = (u128::from(*share) * (u128::from(*left) + 1)) >> 64;
        let part = u64::try_from(part).unwrap();
        *left -= part;
        usage = usage.with(unit, part);
    }
    usage
}
