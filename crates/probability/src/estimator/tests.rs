use super::*;

const TEST_OPTIONS: EstimateOptions<'static> = EstimateOptions {
    max_labels: 20,
    permutations: None,
    fast: false,
    seed: 5,
    prior: None,
};

/// Returns the reading of a round with these logits, and with a bonus for the first label.
fn read(round: &Round, logits: &[f64], first: f64) -> RoundReading {
    let mut logs: Vec<f64> = round.order.iter().map(|option| logits[*option]).collect();
    logs[0] += first;
    RoundReading {
        logprobs: from_logs(&logs).iter().map(|p| Some(p.ln())).collect(),
        rest: None,
    }
}

/// Runs the estimate of a question to its end. Returns the estimate and the number of rounds of
/// each batch.
fn run(
    options: usize,
    how: &EstimateOptions<'_>,
    mut reader: impl FnMut(&Round) -> Option<RoundReading>,
) -> (Result<Estimate, EstimateError>, Vec<usize>) {
    let mut estimator = Estimator::new(options, false, how);
    let mut batches = Vec::new();
    while !estimator.pending().is_empty() {
        let reported: Vec<_> = estimator.pending().iter().map(&mut reader).collect();
        batches.push(reported.len());
        estimator.record(reported);
    }
    (estimator.finish(), batches)
}

fn check(found: &[f64], expected: &[f64], bound: f64) {
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() <= bound;
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn round_counts_follow_the_options() {
    for (options, max_labels, permutations, fast, expected) in [
        (2, 20, None, false, vec![2]),
        (3, 20, None, false, vec![3]),
        (8, 20, None, false, vec![4]),
        (20, 20, None, false, vec![2]),
        (20, 20, Some(8), false, vec![8]),
        (21, 20, None, false, vec![4, 2]),
        (50, 20, None, false, vec![8, 2]),
        (50, 255, None, false, vec![2]),
        (50, 20, None, true, vec![1]),
        (50, 20, Some(2), true, vec![2]),
        (255, 20, None, false, vec![32, 2]),
        (255, 20, Some(1), false, vec![16, 1]),
        // With five options per round: 51 rounds, then 11 and 3 before the final round.
        (255, 5, Some(1), false, vec![51, 11, 3, 1]),
        // A single option needs no round.
        (3, 2, Some(1), false, vec![1, 1]),
        (5, 0, Some(1), false, vec![2, 1, 1]),
    ] {
        let how = EstimateOptions {
            max_labels,
            permutations,
            fast,
            ..TEST_OPTIONS
        };
        let logits: Vec<f64> = (0..options).map(|option| (option as f64).cos()).collect();
        let (found, batches) = run(options, &how, |round| Some(read(round, &logits, 0.0)));
        let found = found.unwrap();
        assert_eq!(
            batches, expected,
            "{options} {max_labels} {permutations:?} {fast}"
        );
        assert_eq!(found.calls as usize, batches.iter().sum::<usize>());
        // Without noise, all settings find the true probabilities.
        check(&found.probabilities, &from_logs(&logits), 1e-5);
    }
}

/// Rounds share only their winners. A constant added to the logits of a round has no effect outside
/// of the round.
#[test]
fn final_round_links_the_tournament() {
    let logits: Vec<f64> = (0..255).map(|option| 3.0 * (option as f64 * 1.7).sin()).collect();
    let mut seen: Vec<(Round, Vec<f64>)> = Vec::new();
    let how = EstimateOptions {
        permutations: Some(1),
        ..TEST_OPTIONS
    };
    let (found, _) = run(255, &how, |round| {
        let noise = |option: usize| ((option * 7 + round.order[0]) as f64).sin() / 2.0;
        let noisy: Vec<f64> = (0..255).map(|option| logits[option] + noise(option)).collect();
        let reading = read(round, &noisy, 0.0);
        seen.push((
            round.clone(),
            reading.logprobs.iter().flatten().copied().collect(),
        ));
        Some(reading)
    });
    let (last, in_final) = seen.pop().unwrap();
    let mut expected = vec![0.0; 255];
    for (round, logs) in &seen {
        let winner = argmax(&logs.iter().map(|log| log.exp()).collect::<Vec<_>>());
        let place = last
            .order
            .iter()
            .position(|option| *option == round.order[winner])
            .unwrap();
        for (option, log) in round.order.iter().zip(logs) {
            expected[*option] = (in_final[place] + log - logs[winner]).exp();
        }
    }
    check(
        &found.unwrap().probabilities,
        &crate::simplex::normalised(&expected),
        1e-4,
    );
}

#[test]
fn disagreeing_orders_are_reported() {
    for (first, flips) in [(0.0, 0.0), (0.5, 0.0), (2.0, 1.0)] {
        let (found, _) = run(2, &TEST_OPTIONS, |round| Some(read(round, &[1.0, 0.0], first)));
        let found = found.unwrap();
        // Each option has the preferred label once.
        check(&found.probabilities, &from_logs(&[1.0, 0.0]), 1e-12);
        assert_eq!((found.flips, found.permutations), (Some(flips), 2), "{first}");
        assert_eq!(found.spread.unwrap() > 1e-9, first > 0.0);
    }
    let how = EstimateOptions {
        permutations: Some(1),
        ..TEST_OPTIONS
    };
    let (found, _) = run(2, &how, |round| Some(read(round, &[1.0, 0.0], 2.0)));
    let found = found.unwrap();
    assert_eq!((found.flips, found.spread, found.observation), (None, None, None));
}

#[test]
fn known_prior_needs_one_order() {
    let mut prior = LabelPrior::default();
    for question in 0..8 {
        let logits = [0.0, f64::from(question), 1.0, -1.0];
        let how = EstimateOptions {
            prior: Some(&prior),
            ..TEST_OPTIONS
        };
        let (found, batches) = run(4, &how, |round| Some(read(round, &logits, 1.5)));
        assert_eq!(batches, [4]);
        prior.learn(&found.unwrap().observation.unwrap());
    }
    let logits = [0.3, 0.0, 0.2, -1.0];
    for (permutations, expected) in [(None, 1), (Some(2), 2)] {
        let how = EstimateOptions {
            prior: Some(&prior),
            permutations,
            ..TEST_OPTIONS
        };
        let (found, batches) = run(4, &how, |round| Some(read(round, &logits, 1.5)));
        assert_eq!(batches, [expected]);
        check(&found.unwrap().probabilities, &from_logs(&logits), 1e-3);
    }
    // No preference is known for five labels.
    let how = EstimateOptions {
        prior: Some(&prior),
        ..TEST_OPTIONS
    };
    assert_eq!(Estimator::new(5, false, &how).pending().len(), 4);
}

#[test]
fn unreported_options_share_the_rest() {
    let how = EstimateOptions {
        max_labels: 2,
        fast: true,
        ..TEST_OPTIONS
    };
    let reading = RoundReading {
        logprobs: [Some(0.6_f64), Some(0.3), None, None, None, None]
            .map(|p| p.map(f64::ln))
            .to_vec(),
        rest: Some(0.3_f64.ln()),
    };
    let (found, _) = run(6, &how, |_| Some(reading.clone()));
    let found = found.unwrap();
    check(
        &found.probabilities,
        &[0.6, 0.3, 0.025, 0.025, 0.025, 0.025],
        1e-9,
    );
    assert!((found.mass.unwrap() - 0.9).abs() < 1e-9);
}

#[test]
fn missing_labels_are_an_error() {
    for options in [2, 50] {
        let (found, _) = run(options, &TEST_OPTIONS, |_| None);
        assert_eq!(found, Err(EstimateError::NoLabels));
        assert_eq!(
            Estimator::new(options, false, &TEST_OPTIONS).finish(),
            Err(EstimateError::Unfinished)
        );
    }
    // Labels with almost no probability are rejected.
    for (mass, is_accepted) in [(0.9e-4, false), (1.1e-4, true)] {
        let logprobs = [0.7, 0.3].map(|share: f64| Some((share * mass).ln()));
        let reading = RoundReading {
            logprobs: logprobs.to_vec(),
            rest: None,
        };
        let (found, _) = run(2, &TEST_OPTIONS, |_| Some(reading.clone()));
        assert_eq!(found.is_ok(), is_accepted, "{mass}: {found:?}");
    }
    // If one of two orders is unread, the estimate uses the other one, and the mass is 0.
    let (found, _) = run(2, &TEST_OPTIONS, |round| {
        (round.order[0] == 0).then(|| read(round, &[1.0, 0.0], 0.0))
    });
    let found = found.unwrap();
    check(&found.probabilities, &from_logs(&[1.0, 0.0]), 1e-9);
    assert_eq!((found.mass, found.flips), (Some(0.0), None));
}

/// A round without labels does not fail the estimate, and its options do not become more probable.
#[test]
fn silent_round_does_not_fail_the_estimate() {
    let logits: Vec<f64> = (0..50)
        .map(|option| 3.0 * (f64::from(option) * 1.7).sin())
        .collect();
    let how = EstimateOptions {
        permutations: Some(1),
        ..TEST_OPTIONS
    };
    let mut silent = Vec::new();
    let (found, _) = run(50, &how, |round| {
        if silent.is_empty() {
            silent = round.order.clone();
            return None;
        }
        Some(read(round, &logits, 0.0))
    });
    let found = found.unwrap();
    let named = found.probabilities.iter().enumerate();
    let min = named
        .filter(|(option, _)| !silent.contains(option))
        .map(|(_, p)| *p)
        .fold(1.0, f64::min);
    // One of the unread options still enters the final round.
    let unread = silent
        .iter()
        .filter(|option| found.probabilities[**option] <= min);
    assert!(unread.count() >= silent.len() - 4);
    assert_eq!(found.mass, Some(0.0));
}
