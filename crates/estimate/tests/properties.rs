//! What holds whatever is read.

use proptest::prelude::*;
use tollgate_estimate::{
    AnswerKind, Estimate, EstimateOptions, Estimator, Example, HeatDraws, HeatReading, NoEstimate, Profile,
    Random, SampleOptions, Sampler, Truth,
};

/// What an upstream may say of a label.
fn logprob() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        4 => (-25.0..0.0).prop_map(Some),
        2 => Just(None),
        1 => prop::sample::select(vec![f64::NEG_INFINITY, f64::INFINITY, f64::NAN, -9_999.0, -0.0, 0.0, 3.0]).prop_map(Some),
        1 => Just(Some(-1.0)),
    ]
}

/// Readings that are told one after the other, again and again.
fn readings() -> impl Strategy<Value = Vec<Option<HeatReading>>> {
    let reading = (prop::collection::vec(logprob(), 0..40), logprob());
    let reading = reading.prop_map(|(logprobs, rest)| HeatReading { logprobs, rest });
    prop::collection::vec(prop::option::weighted(0.9, reading), 1..12)
}

/// Checks that numbers are probabilities.
fn check(found: Result<Estimate, NoEstimate>, options: usize) -> Result<(), TestCaseError> {
    let Ok(found) = found else {
        prop_assert_eq!(found, Err(NoEstimate::NoLabels));
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
    fn whatever_is_read_becomes_probabilities(
        options in 2_usize..60,
        ordered in any::<bool>(),
        labels_at_once in 0_usize..30,
        permutations in prop::option::of(0_u32..10),
        fast in any::<bool>(),
        seed in any::<u64>(),
        readings in readings(),
    ) {
        let how = EstimateOptions { labels_at_once, permutations, fast, seed, prior: None };
        let mut estimator = Estimator::new(options, ordered, &how);
        let mut next = readings.iter().cycle().cloned();
        let mut rounds = 0;
        while !estimator.asks().is_empty() {
            for heat in estimator.asks() {
                let mut once = heat.order.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert!(once.len() == heat.order.len() && once.len() > 1 && once.iter().all(|option| *option < options));
            }
            let told = next.by_ref().take(estimator.asks().len()).flat_map(Some);
            estimator.tell(told.collect());
            rounds += 1;
            prop_assert!(rounds <= 8);
        }
        check(estimator.finish(), options)?;
    }

    #[test]
    fn whatever_is_drawn_becomes_probabilities(
        options in 2_usize..60,
        ordered in any::<bool>(),
        labels_at_once in 0_usize..80,
        permutations in prop::option::of(0_u32..10),
        draws in 0_u32..50,
        seed in any::<u64>(),
        counts in prop::collection::vec(prop_oneof![Just(0_u32), 0_u32..20, Just(u32::MAX / 64)], 1..90),
    ) {
        let mut sampler = Sampler::new(options, ordered, &SampleOptions { labels_at_once, draws, permutations, seed });
        let mut next = counts.iter().cycle().copied();
        for _ in 0..2 {
            let asked = sampler.asks();
            let told = asked.iter().map(|asked| {
                assert!(asked.draws > 0);
                let counts = next.by_ref().take(asked.heat.order.len()).collect();
                Some(HeatDraws { counts, others: 1 })
            });
            let told = told.collect();
            sampler.tell(told);
        }
        prop_assert!(sampler.asks().is_empty());
        if let Ok(found) = sampler.clone().finish() {
            // Counts are never certainties.
            prop_assert!(found.probabilities.iter().all(|p| *p > 0.0 && *p < 1.0), "{:?}", found.probabilities);
        }
        check(sampler.finish(), options)?;
    }

    #[test]
    fn whoever_stands_elsewhere_is_as_probable(
        logits in prop::collection::vec(-6.0_f64..6.0, 2..70),
        labels_at_once in prop::sample::select(vec![6_usize, 20, 255]),
        seed in any::<u64>(),
    ) {
        let estimate = |logits: &[f64]| {
            let how = EstimateOptions { labels_at_once, permutations: None, fast: false, seed, prior: None };
            let mut estimator = Estimator::new(logits.len(), false, &how);
            while !estimator.asks().is_empty() {
                let read = estimator.asks().into_iter().map(|heat| {
                    let shown: Vec<f64> = heat.order.iter().map(|option| logits[*option]).collect();
                    let whole = shown.iter().map(|logit| logit.exp()).sum::<f64>().ln();
                    Some(HeatReading { logprobs: shown.iter().map(|logit| Some(logit - whole)).collect(), rest: None })
                });
                let read = read.collect();
                estimator.tell(read);
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
    fn whatever_is_corrected_stays_a_distribution_in_its_order(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0_f64, Just(1e-300)], 2..20),
        right in prop::collection::vec(any::<bool>(), 30..200),
    ) {
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 1e-6);
        let said: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let example = |right: &bool| Example {
            kind: AnswerKind::Choice,
            probabilities: said.clone(),
            truth: Truth::Option(usize::from(*right)),
            abstain: None,
            confidence: None,
            group: None,
        };
        let profile = Profile::fit(&right.iter().map(example).collect::<Vec<_>>()).unwrap();
        let found = profile.apply(AnswerKind::Choice, &said);
        prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (one, two) in said.iter().zip(&found) {
            for (other, after) in said.iter().zip(&found) {
                prop_assert!(two.is_finite() && (one > other || two <= after), "{said:?} {found:?}");
            }
        }
    }
}
