//! A quote is an upper bound; one that is cut to the balance is the largest that fits.

use proptest::option;
use proptest::prelude::*;
use tollgate_billing::quote::{LEAST_CLAMP, LEAST_OUTPUT, Room, TooDear, quote_covered, quote_within};
use tollgate_billing::{Demand, quote};
use tollgate_types::Credits;

use crate::model::{any_model, demand, shares, usage_within};

/// A part of an amount, in millionths of it.
fn part_of(amount: Credits, millionths: u32) -> Credits {
    let nanos = i128::from(amount.nanos()) * i128::from(millionths) / 1_000_000;
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What keeps to the cap costs no more than the quote, in whatever classes it is consumed.
    #[test]
    fn a_quote_is_an_upper_bound(model in any_model(), demand in demand(), shares in shares()) {
        let quote = quote(&model, &demand);
        let usage = usage_within(&demand, &quote, &shares);
        let cost = model.prices.cost(&usage);
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
        let fits = |amount: Credits| amount <= available;
        match quote_within(&model, &demand, available) {
            Some(cut) => {
                prop_assert!(cut.amount <= available, "{cut:?} for {available}");
                prop_assert!((LEAST_CLAMP..=full.output_cap).contains(&cut.output_cap), "{cut:?} of {full:?}");
                prop_assert!(cut.must_clamp);
                let usage = usage_within(&demand, &cut, &shares);
                prop_assert!(model.prices.cost(&usage) <= cut.amount);
                prop_assert!(cut.output_cap == full.output_cap || !fits(with_cap(cut.output_cap + 1).amount));
            }
            None if full.output_cap < LEAST_CLAMP => {}
            None => prop_assert!(!fits(with_cap(LEAST_CLAMP).amount), "{available} of {full:?}"),
        }
    }

    /// Who allows a call to cost so much gets the largest output that it pays for, whatever cap the request has, and is
    /// told the least that would do where there is none.
    #[test]
    fn what_a_caller_allows_is_never_exceeded(
        model in any_model(),
        demand in demand(),
        millionths in prop_oneof![0..1_000_000_u32, 900_000..2_000_000_u32],
        reasoning_budget in prop_oneof![4 => Just(0), 1 => 0..4_000_u64],
        shares in shares(),
    ) {
        let demand = Demand { reasoning_budget, ..demand };
        let full = quote(&model, &demand);
        let most = part_of(full.amount, millionths);
        let allowing = |most| Room { max_cost: Some(most), available: Credits::MAX };
        let with_cap = |cap| quote(&model, &Demand { max_tokens: Some(cap), ..demand }).amount;
        let least = LEAST_OUTPUT.max(reasoning_budget + 1).min(full.output_cap);
        match quote_covered(&model, &demand, allowing(most)) {
            Ok(quote) if full.amount <= most => prop_assert_eq!(quote, full),
            Ok(quote) => {
                prop_assert!(quote.amount <= most && quote.must_clamp, "{quote:?} for {most}");
                prop_assert!((least..=full.output_cap).contains(&quote.output_cap), "{quote:?} of {full:?}");
                prop_assert!(quote.output_cap == full.output_cap || with_cap(quote.output_cap + 1) > most);
                let usage = usage_within(&demand, &quote, &shares);
                prop_assert!(model.prices.cost(&usage) <= most);
            }
            Err(TooDear::Allowed { least: enough }) => {
                prop_assert_eq!(enough, with_cap(least));
                prop_assert!(enough > most);
                let served = quote_covered(&model, &demand, allowing(enough));
                prop_assert!(served.is_ok_and(|quote| quote.amount <= enough), "{enough} of {full:?}");
            }
            Err(dear) => prop_assert!(false, "{dear:?}"),
        }
    }

    /// A cap that the caller set is never cut for want of credits.
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
