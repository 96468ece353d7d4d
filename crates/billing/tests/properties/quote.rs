//! A quote is an upper bound; one that is cut to the balance is the largest that fits.

use proptest::option;
use proptest::prelude::*;
use tollgate_billing::quote::{LEAST_CLAMP, quote_within};
use tollgate_billing::{Demand, quote};
use tollgate_types::Credits;
use tollgate_types::money::Discount;

use crate::model::{any_model, demand, shares, usage_within};

/// A part of an amount, in millionths of it.
fn part_of(amount: Credits, millionths: u32) -> Credits {
    let nanos = i128::from(amount.nanos()) * i128::from(millionths) / 1_000_000;
    Credits::from_nanos(i64::try_from(nanos).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What keeps to the cap costs no more than the quote, in whatever classes it is consumed.
    #[test]
    fn a_quote_is_an_upper_bound(model in any_model(), demand in demand(), shares in shares()) {
        let quote = quote(&model, &demand);
        let usage = usage_within(&demand, &quote, &shares);
        let cost = model.prices.cost(&usage, Discount::NONE);
        prop_assert!(cost <= quote.amount, "{cost} of {:?} for {usage:?}", quote);
        prop_assert!(demand.max_tokens.is_none_or(|asked| quote.output_cap <= asked));
        prop_assert!(model.output_ceiling().is_none_or(|ceiling| quote.output_cap <= ceiling));
        let nobody_caps = demand.max_tokens.is_none() && model.output_ceiling().is_none();
        prop_assert_eq!(quote.must_clamp, nobody_caps && !model.prices.is_free());
    }

    /// A cut quote fits the balance, keeps to the least cap, bounds the cost like any other, and a larger one would not
    /// fit. There is none only where the least cap does not fit.
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
        // The sum of the input is rounded before the rest is divided, and one nano-credit is kept back.
        let just_fits = |amount: Credits| amount.nanos() < available.nanos() - 1;
        match quote_within(&model, &demand, available) {
            Some(cut) => {
                prop_assert!(cut.amount <= available, "{cut:?} for {available}");
                prop_assert!((LEAST_CLAMP..=full.output_cap).contains(&cut.output_cap), "{cut:?} of {full:?}");
                prop_assert!(cut.must_clamp);
                let usage = usage_within(&demand, &cut, &shares);
                prop_assert!(model.prices.cost(&usage, Discount::NONE) <= cut.amount);
                prop_assert!(cut.output_cap == full.output_cap || !just_fits(with_cap(cut.output_cap + 1).amount));
            }
            None if full.output_cap < LEAST_CLAMP => {}
            None => prop_assert!(!just_fits(with_cap(LEAST_CLAMP).amount), "{available} of {full:?}"),
        }
    }

    /// A cap that the caller set is never cut.
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
