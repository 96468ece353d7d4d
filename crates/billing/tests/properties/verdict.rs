//! What the table of charges never does.

use proptest::option;
use proptest::prelude::*;
use tollgate_billing::{Ending, Evidence, verdict};
use tollgate_types::{Unit, Usage};

use crate::model::demand;

/// Any ending.
pub fn ending() -> impl Strategy<Value = Ending> {
    proptest::sample::select(vec![
        Ending::Complete,
        Ending::CallerGoneDrained,
        Ending::CallerGoneCut,
        Ending::UpstreamError,
        Ending::Timeout,
    ])
}

/// Anything that may be known of a call, zeroes more often than chance has them.
fn evidence() -> impl Strategy<Value = Evidence> {
    let count = || prop_oneof![1 => Just(0), 2 => 0..1_000_000_u64];
    let report = proptest::collection::vec(count(), Unit::ALL.len()).prop_map(|counts| {
        Unit::ALL
            .into_iter()
            .zip(counts)
            .fold(Usage::ZERO, |usage, (unit, count)| usage.with(unit, count))
    });
    let report = prop_oneof![4 => report, 1 => count().prop_map(|input| Usage::tokens(input, 0))];
    (option::of(report), count()).prop_map(|(reported, output_bytes)| Evidence {
        reported,
        output_bytes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_table_keeps_its_promises(ending in ending(), evidence in evidence(), demand in demand()) {
        let verdict = verdict(ending, &evidence, &demand);
        let reported_output = evidence.reported.map_or(0, |usage| usage.total_output());
        let failed = matches!(ending, Ending::UpstreamError | Ending::Timeout);
        if evidence.output_bytes == 0 && reported_output == 0 {
            prop_assert!(verdict.usage.is_zero(), "charged without output: {verdict:?}");
        } else if let Some(reported) = evidence.reported {
            prop_assert_eq!(verdict.usage, reported);
        } else if failed {
            prop_assert!(verdict.usage.is_zero(), "charged after a failure: {verdict:?}");
        } else {
            prop_assert!(verdict.estimated, "consumed and not charged: {verdict:?}");
        }
        if verdict.estimated {
            prop_assert_eq!(evidence.reported, None);
            prop_assert!(!failed && evidence.output_bytes > 0);
            prop_assert!(verdict.usage.total_input() <= demand.input_bound());
            prop_assert!(verdict.usage.total_output() <= evidence.output_bytes);
            prop_assert!(!demand.is_input_only() || verdict.usage.total_output() == 0);
        }
    }
}
