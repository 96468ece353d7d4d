//! A quote is an upper bound of the cost. A quote that the balance limits is the largest that fits.

use proptest::option;
use proptest::prelude::*;
use tollgate_billing::quote::{
    MIN_CLAMP, MIN_OUTPUT_TOKENS, QuoteError, SpendLimit, quote_covered, quote_within,
};
use tollgate_billing::{Demand, quote};
use tollgate_types::Credits;

use crate::model::{any_model, demand, shares, usage_within};

/// Returns a fraction of an amount, in millionths.
fn part_of(amount: Credits, millionths: u32) -> Credits {
    let nanos = i128::from(amount.nanos()) * i128::from(millionths) / 1_000_000;
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A usage within the cap costs no more than the quote, in any units.
    #[test]
    fn a_quote_is_an_upper_bound(model in any_model(), demand in demand(), shares in shares()) {
        let quote = quote(&model, &demand);
        let usage = usage_within(&demand, &quote, &shares);
        let cost = model.prices.cost(&usage);
        prop_assert!(cost <= quote.amount, "{cost} of {:?} for {usage:?}", quote);
        prop_assert!(demand.max_tokens.is_none_or(|asked| quote.output_cap <= asked));
        prop_assert!(model.output_ceiling().is_none_or(|ceiling| quote.output_cap <= ceiling));
        let is_uncapped = demand.max_tokens.is_none() && model.output_ceiling().is_none();
        prop_assert_eq!(quote.must_clamp, is_uncapped && !model.prices.is_free());
    }

    /// A limited quote fits the balance, has at least the minimum cap, bounds the cost, and is the
    /// largest such quote. There is none only if the minimum cap does not fit.
    #[test]
    fn a_cut_quote_is_the_largest_that_fits(
        model in any_model(),
        demand in demand(),
        millionths in prop_oneof![0..1_000_000_u32, 900_000..1_000_000_u32],
        shares in shares(),
    ) {
        let demand = Demand { max_tokens: None, ..demand };
        let full = quote(&model, &demand);
        let available = part_of(full.amount, millionths);
        prop_assume!(available < full.amount);
        let with_cap = |cap| quote(&model, &Demand { max_tokens: Some(cap), ..demand });
        let fits = |amount: Credits| amount <= available;
        match quote_within(&model, &demand, available) {
            Some(cut) => {
                prop_assert!(cut.amount <= available, "{cut:?} for {available}");
                prop_assert!((MIN_CLAMP..=full.output_cap).contains(&cut.output_cap), "{cut:?} of {full:?}");
                prop_assert!(cut.must_clamp);
                let usage = usage_within(&demand, &cut, &shares);
                prop_assert!(model.prices.cost(&usage) <= cut.amount);
                prop_assert!(cut.output_cap == full.output_cap || !fits(with_cap(cut.output_cap + 1).amount));
            }
            None if full.output_cap < MIN_CLAMP => {}
            None => prop_assert!(!fits(with_cap(MIN_CLAMP).amount), "{available} of {full:?}"),
        }
    }

    /// The quote of a request with a cost limit has the largest output that the limit pays for. If
    /// there is none, the error contains the minimum limit.
    #[test]
    fn max_cost_is_never_exceeded(
        model in any_model(),
        demand in demand(),
        millionths in prop_oneof![0..1_000_000_u32, 900_000..2_000_000_u32],
        reasoning_budget in prop_oneof![4 => Just(0), 1 => 0..4_000_u64],
        shares in shares(),
    ) {
        let demand = Demand { reasoning_budget, ..demand };
        let full = quote(&model, &demand);
        let maximum = part_of(full.amount, millionths);
        let allowing = |maximum| SpendLimit { max_cost: Some(maximum), available: Credits::MAX };
        let with_cap = |cap| quote(&model, &Demand { max_tokens: Some(cap), ..demand }).amount;
        let minimum = MIN_OUTPUT_TOKENS.max(reasoning_budget + 1).min(full.output_cap);
        match quote_covered(&model, &demand, allowing(maximum)) {
            Ok(quote) if full.amount <= maximum => prop_assert_eq!(quote, full),
            Ok(quote) => {
                prop_assert!(quote.amount <= maximum && quote.must_clamp, "{quote:?} for {maximum}");
                prop_assert!((minimum..=full.output_cap).contains(&quote.output_cap), "{quote:?} of {full:?}");
                prop_assert!(quote.output_cap == full.output_cap || with_cap(quote.output_cap + 1) > maximum);
                let usage = usage_within(&demand, &quote, &shares);
                prop_assert!(model.prices.cost(&usage) <= maximum);
            }
            Err(QuoteError::Allowed { minimum: enough }) => {
                prop_assert_eq!(enough, with_cap(minimum));
                prop_assert!(enough > maximum);
                let served = quote_covered(&model, &demand, allowing(enough));
                prop_assert!(served.is_ok_and(|quote| quote.amount <= enough), "{enough} of {full:?}");
            }
            Err(error) => prop_assert!(false, "{error:?}"),
        }
    }

    /// The balance never changes a caller's cap.
    #[test]
    fn a_callers_cap_is_never_cut(
        model in any_model(),
        demand in demand(),
        cap in 1..=u64::from(u32::MAX),
        available in option::of(0..=i64::MAX),
    ) {
        let demand = Demand { max_tokens: Some(cap), ..demand };
        let available = available.map_or(Credits::MAX, Credits::from_nanos);
        prop_assert_eq!(quote_within(&model, &demand, available), None);
    }
}
