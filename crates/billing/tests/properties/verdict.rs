//! Properties of the charge table for any evidence.

use proptest::option;
use proptest::prelude::*;
use tollgate_billing::quote::output_tokens;
use tollgate_billing::{Ending, Evidence, verdict};
use tollgate_types::{Unit, Usage};

use crate::model::demand;

/// Generates every ending except `Stopped`.
pub fn ending() -> impl Strategy<Value = Ending> {
    proptest::sample::select(vec![
        Ending::Complete,
        Ending::CallerGoneDrained,
        Ending::CallerGoneCut,
        Ending::UpstreamError,
        Ending::Timeout,
    ])
}

/// Generates any evidence of a call, with more zeroes than by chance.
fn evidence() -> impl Strategy<Value = Evidence> {
    let count = || prop_oneof![1 => Just(0), 2 => 0..1_000_000_u64];
    let report = proptest::collection::vec(count(), Unit::ALL.len()).prop_map(|counts| {
        Unit::ALL
            .into_iter()
            .zip(counts)
            .fold(Usage::ZERO, |usage, (unit, count)| usage.with(unit, count))
    });
    let report = prop_oneof![4 => report, 1 => count().prop_map(|input| Usage::tokens(input, 0))];
    // An event with output has at least one byte.
    (option::of(report), count(), 0..=100_u64).prop_map(|(reported, output_bytes, percent)| Evidence {
        reported,
        output_bytes,
        output_events: output_bytes / 100 * percent,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn verdict_invariants_hold(ending in ending(), evidence in evidence(), demand in demand()) {
        let verdict = verdict(ending, &evidence, &demand);
        let failed = ending.is_upstream_failure();
        let is_text = !demand.is_input_only() && demand.made.is_zero();
        let is_cut = ending == Ending::CallerGoneCut && is_text;
        if failed {
            prop_assert!(verdict.usage.is_zero(), "charged after a failure: {verdict:?}");
        } else if let Some(reported) = evidence.reported {
            let output = reported.total_output();
            let is_empty = is_text && evidence.output_bytes > 0 && output == 0;
            // A cut response may have had more output than was reported.
            let tokens = output_tokens(evidence.output_bytes);
            let min_output = match (is_cut, is_empty) {
                (true, _) => tokens.max(evidence.output_events),
                (false, true) => tokens,
                (false, false) => 0,
            };
            if !reported.is_zero() {
                prop_assert_eq!(verdict.usage.total_input(), reported.total_input());
            }
            prop_assert_eq!(verdict.usage.total_output(), output.max(min_output));
            prop_assert_eq!(verdict.estimated, output < min_output);
        } else {
            prop_assert!(verdict.estimated, "consumed and not charged: {verdict:?}");
        }
        if verdict.estimated && evidence.reported.is_none() {
            prop_assert!(!failed);
            prop_assert!(verdict.usage.total_input() <= demand.input_bound());
            prop_assert!(verdict.usage.total_output() <= evidence.output_bytes);
            prop_assert!(!demand.is_input_only() || verdict.usage.total_output() == 0);
        }
    }
}
