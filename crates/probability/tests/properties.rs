//! Property tests of the estimators: the estimates are valid for any reading.

use proptest::prelude::*;
use tollgate_probability::{
    AnswerKind, Estimate, EstimateError, EstimateOptions, Estimator, Example, Profile, Random, RoundDraws,
    RoundReading, SampleOptions, Sampler, Truth,
};

/// Returns a strategy for the log-probability of a label, as upstreams report it.
fn logprob() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        4 => (-25.0..0.0).prop_map(Some),
        2 => Just(None),
        1 => prop::sample::select(vec![f64::NEG_INFINITY, f64::INFINITY, f64::NAN, -9_999.0, -0.0, 0.0, 3.0]).prop_map(Some),
        1 => Just(Some(-1.0)),
    ]
}

/// Returns a strategy for readings, which the test reports in a cycle.
fn readings() -> impl Strategy<Value = Vec<Option<RoundReading>>> {
    let reading = (prop::collection::vec(logprob(), 0..40), logprob());
    let reading = reading.prop_map(|(logprobs, rest)| RoundReading { logprobs, rest });
    prop::collection::vec(prop::option::weighted(0.9, reading), 1..12)
}

/// Checks that an estimate has one valid probability for each option.
fn check(found: Result<Estimate, EstimateError>, options: usize) -> Result<(), TestCaseError> {
    let Ok(found) = found else {
        prop_assert_eq!(found, Err(EstimateError::NoLabels));
        return Ok(());
    };
    prop_assert_eq!(found.probabilities.len(), options);
    let sum: f64 = found.probabilities.iter().sum();
    prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    for share in found
        .probabilities
        .iter()
        .chain(&found.mass)
        .chain(&found.flips)
        .chain(&found.spread)
    {
        prop_assert!((0.0..=1.0 + 1e-12).contains(share), "{found:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_reading_becomes_probabilities(
        options in 2_usize..60,
        ordered in any::<bool>(),
        max_labels in 0_usize..30,
        permutations in prop::option::of(0_u32..10),
        fast in any::<bool>(),
        seed in any::<u64>(),
        readings in readings(),
    ) {
        let how = EstimateOptions { max_labels, permutations, fast, seed, prior: None };
        let mut estimator = Estimator::new(options, ordered, &how);
        let mut next = readings.iter().cycle().cloned();
        let mut batches = 0;
        while !estimator.pending().is_empty() {
            for round in estimator.pending() {
                let mut once = round.order.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert!(once.len() == round.order.len() && once.len() > 1 && once.iter().all(|option| *option < options));
            }
            let reported = next.by_ref().take(estimator.pending().len()).flat_map(Some);
            estimator.record(reported.collect());
            batches += 1;
            prop_assert!(batches <= 8);
        }
        check(estimator.finish(), options)?;
    }

    #[test]
    fn any_draws_become_probabilities(
        options in 2_usize..60,
        ordered in any::<bool>(),
        max_labels in 0_usize..80,
        permutations in prop::option::of(0_u32..10),
        draws in 0_u32..50,
        seed in any::<u64>(),
        counts in prop::collection::vec(prop_oneof![Just(0_u32), 0_u32..20, Just(u32::MAX / 64)], 1..90),
        varies in any::<bool>(),
    ) {
        let how = SampleOptions { max_labels, draws, permutations, seed, varies };
        let mut sampler = Sampler::new(options, ordered, &how);
        let mut next = counts.iter().cycle().copied();
        let mut batches = 0;
        while !sampler.pending().is_empty() {
            // Each batch has an answer of each round, so the number of batches is at most the
            // number of draws.
            batches += 1;
            prop_assert!(batches <= 2 * draws.max(8) + 2, "{batches}");
            let asked = sampler.pending();
            let reported = asked.iter().map(|asked| {
                assert!(asked.draws > 0);
                let counts = next.by_ref().take(asked.round.order.len()).collect();
                Some(RoundDraws { counts, others: 1 })
            });
            let reported = reported.collect();
            sampler.record(reported);
        }
        if let Ok(found) = sampler.clone().finish() {
            // No probability is 0 or 1.
            prop_assert!(found.probabilities.iter().all(|p| *p > 0.0 && *p < 1.0), "{:?}", found.probabilities);
        }
        check(sampler.finish(), options)?;
    }

    #[test]
    fn probability_does_not_depend_on_the_position(
        logits in prop::collection::vec(-6.0_f64..6.0, 2..70),
        max_labels in prop::sample::select(vec![6_usize, 20, 255]),
        seed in any::<u64>(),
    ) {
        let estimate = |logits: &[f64]| {
            let how = EstimateOptions { max_labels, permutations: None, fast: false, seed, prior: None };
            let mut estimator = Estimator::new(logits.len(), false, &how);
            while !estimator.pending().is_empty() {
                let read = estimator.pending().into_iter().map(|round| {
                    let shown: Vec<f64> = round.order.iter().map(|option| logits[*option]).collect();
                    let whole = shown.iter().map(|logit| logit.exp()).sum::<f64>().ln();
                    Some(RoundReading { logprobs: shown.iter().map(|logit| Some(logit - whole)).collect(), rest: None })
                });
                let read = read.collect();
                estimator.record(read);
            }
            estimator.finish().unwrap().probabilities
        };
        let mut moved: Vec<usize> = (0..logits.len()).collect();
        Random::new(seed).shuffle(&mut moved);
        let found = estimate(&logits);
        let other = estimate(&moved.iter().map(|option| logits[*option]).collect::<Vec<_>>());
        for (place, option) in moved.iter().enumerate() {
            prop_assert!((other[place] - found[*option]).abs() < 1e-5, "{option}: {found:?} {other:?}");
        }
    }

    #[test]
    fn correction_keeps_the_order_and_the_sum(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0_f64, Just(1e-300)], 2..20),
        right in prop::collection::vec(any::<bool>(), 30..200),
    ) {
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 1e-6);
        let predicted: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let example = |right: &bool| Example {
            kind: AnswerKind::Choice,
            probabilities: predicted.clone(),
            truth: Truth::Option(usize::from(*right)),
            abstain: None,
            confidence: None,
            group: None,
        };
        let profile = Profile::fit(&right.iter().map(example).collect::<Vec<_>>()).unwrap();
        let found = profile.apply(AnswerKind::Choice, &predicted);
        prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (one, two) in predicted.iter().zip(&found) {
            for (other, after) in predicted.iter().zip(&found) {
                prop_assert!(two.is_finite() && (one > other || two <= after), "{predicted:?} {found:?}");
            }
        }
    }
}
