use super::*;

const HOW: EstimateOptions<'static> = EstimateOptions {
    labels_at_once: 20,
    permutations: None,
    fast: false,
    seed: 5,
    prior: None,
};

/// Reads a heat of options with these logarithms, with so much added to the first label.
fn read(heat: &Heat, logits: &[f64], first: f64) -> HeatReading {
    let mut logs: Vec<f64> = heat.order.iter().map(|option| logits[*option]).collect();
    logs[0] += first;
    HeatReading {
        logprobs: from_logs(&logs).iter().map(|p| Some(p.ln())).collect(),
        rest: None,
    }
}

/// Runs a question to its end.
fn run(
    options: usize,
    how: &EstimateOptions<'_>,
    mut reader: impl FnMut(&Heat) -> Option<HeatReading>,
) -> (Result<Estimate, NoEstimate>, Vec<usize>) {
    let mut estimator = Estimator::new(options, false, how);
    let mut rounds = Vec::new();
    while !estimator.asks().is_empty() {
        let told: Vec<_> = estimator.asks().iter().map(&mut reader).collect();
        rounds.push(told.len());
        estimator.tell(told);
    }
    (estimator.finish(), rounds)
}

fn check(found: &[f64], expected: &[f64], bound: f64) {
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() <= bound;
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn so_many_heats_are_asked_for() {
    for (options, labels_at_once, permutations, fast, expected) in [
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
        // Five at once: 51 heats, whose leaders meet in 11 and then in 3 before the final.
        (255, 5, Some(1), false, vec![51, 11, 3, 1]),
        // Who is alone has no heat.
        (3, 2, Some(1), false, vec![1, 1]),
        (5, 0, Some(1), false, vec![2, 1, 1]),
    ] {
        let how = EstimateOptions {
            labels_at_once,
            permutations,
            fast,
            ..HOW
        };
        let logits: Vec<f64> = (0..options).map(|option| (option as f64).cos()).collect();
        let (found, rounds) = run(options, &how, |heat| Some(read(heat, &logits, 0.0)));
        let found = found.unwrap();
        assert_eq!(
            rounds, expected,
            "{options} {labels_at_once} {permutations:?} {fast}"
        );
        assert_eq!(found.calls as usize, rounds.iter().sum::<usize>());
        // Without noise all of them find the truth.
        check(&found.probabilities, &from_logs(&logits), 1e-5);
    }
}

/// Heats that share only their winners: what another context adds to a heat does not matter beyond it.
#[test]
fn a_tournament_is_linked_by_its_final() {
    let logits: Vec<f64> = (0..255).map(|option| 3.0 * (option as f64 * 1.7).sin()).collect();
    let mut seen: Vec<(Heat, Vec<f64>)> = Vec::new();
    let how = EstimateOptions {
        permutations: Some(1),
        ..HOW
    };
    let (found, _) = run(255, &how, |heat| {
        let noise = |option: usize| ((option * 7 + heat.order[0]) as f64).sin() / 2.0;
        let noisy: Vec<f64> = (0..255).map(|option| logits[option] + noise(option)).collect();
        let reading = read(heat, &noisy, 0.0);
        seen.push((heat.clone(), reading.logprobs.iter().flatten().copied().collect()));
        Some(reading)
    });
    let (last, in_final) = seen.pop().unwrap();
    let mut expected = vec![0.0; 255];
    for (heat, logs) in &seen {
        let winner = likeliest(&logs.iter().map(|log| log.exp()).collect::<Vec<_>>());
        let place = last
            .order
            .iter()
            .position(|option| *option == heat.order[winner])
            .unwrap();
        for (option, log) in heat.order.iter().zip(logs) {
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
fn orders_that_disagree_say_so() {
    for (first, flips) in [(0.0, 0.0), (0.5, 0.0), (2.0, 1.0)] {
        let (found, _) = run(2, &HOW, |heat| Some(read(heat, &[1.0, 0.0], first)));
        let found = found.unwrap();
        // The preference falls on either option once.
        check(&found.probabilities, &from_logs(&[1.0, 0.0]), 1e-12);
        assert_eq!((found.flips, found.permutations), (Some(flips), 2), "{first}");
        assert_eq!(found.spread.unwrap() > 1e-9, first > 0.0);
    }
    let how = EstimateOptions {
        permutations: Some(1),
        ..HOW
    };
    let (found, _) = run(2, &how, |heat| Some(read(heat, &[1.0, 0.0], 2.0)));
    let found = found.unwrap();
    assert_eq!((found.flips, found.spread, found.lesson), (None, None, None));
}

#[test]
fn one_order_is_enough_for_a_model_that_is_known() {
    let mut prior = LabelPrior::default();
    for question in 0..8 {
        let logits = [0.0, f64::from(question), 1.0, -1.0];
        let how = EstimateOptions {
            prior: Some(&prior),
            ..HOW
        };
        let (found, rounds) = run(4, &how, |heat| Some(read(heat, &logits, 1.5)));
        assert_eq!(rounds, [4]);
        prior.learn(&found.unwrap().lesson.unwrap());
    }
    let logits = [0.3, 0.0, 0.2, -1.0];
    for (permutations, expected) in [(None, 1), (Some(2), 2)] {
        let how = EstimateOptions {
            prior: Some(&prior),
            permutations,
            ..HOW
        };
        let (found, rounds) = run(4, &how, |heat| Some(read(heat, &logits, 1.5)));
        assert_eq!(rounds, [expected]);
        check(&found.unwrap().probabilities, &from_logs(&logits), 1e-3);
    }
    // Nothing is known of five labels.
    let how = EstimateOptions {
        prior: Some(&prior),
        ..HOW
    };
    assert_eq!(Estimator::new(5, false, &how).asks().len(), 4);
}

#[test]
fn what_one_look_does_not_show_shares_the_rest() {
    let how = EstimateOptions {
        labels_at_once: 2,
        fast: true,
        ..HOW
    };
    let reading = HeatReading {
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
fn what_tells_nothing_is_said() {
    for options in [2, 50] {
        let (found, _) = run(options, &HOW, |_| None);
        assert_eq!(found, Err(NoEstimate::NoLabels));
        assert_eq!(
            Estimator::new(options, false, &HOW).finish(),
            Err(NoEstimate::Unfinished)
        );
    }
    // Nor does what the model will not say: labels that are as good as impossible.
    for (mass, is_said) in [(0.9e-4, false), (1.1e-4, true)] {
        let logprobs = [0.7, 0.3].map(|share: f64| Some((share * mass).ln()));
        let reading = HeatReading {
            logprobs: logprobs.to_vec(),
            rest: None,
        };
        let (found, _) = run(2, &HOW, |_| Some(reading.clone()));
        assert_eq!(found.is_ok(), is_said, "{mass}: {found:?}");
    }
    // One order of two tells nothing: the other one counts, and the mass says it.
    let (found, _) = run(2, &HOW, |heat| {
        (heat.order[0] == 0).then(|| read(heat, &[1.0, 0.0], 0.0))
    });
    let found = found.unwrap();
    check(&found.probabilities, &from_logs(&[1.0, 0.0]), 1e-9);
    assert_eq!((found.mass, found.flips), (Some(0.0), None));
}

/// A heat in which the model names nothing is no reason to fail, and its options are no likelier than others.
#[test]
fn a_heat_may_tell_nothing() {
    let logits: Vec<f64> = (0..50)
        .map(|option| 3.0 * (f64::from(option) * 1.7).sin())
        .collect();
    let how = EstimateOptions {
        permutations: Some(1),
        ..HOW
    };
    let mut silent = Vec::new();
    let (found, _) = run(50, &how, |heat| {
        if silent.is_empty() {
            silent = heat.order.clone();
            return None;
        }
        Some(read(heat, &logits, 0.0))
    });
    let found = found.unwrap();
    let named = found.probabilities.iter().enumerate();
    let least = named
        .filter(|(option, _)| !silent.contains(option))
        .map(|(_, p)| *p)
        .fold(1.0, f64::min);
    // One of them is in the final all the same.
    let unread = silent
        .iter()
        .filter(|option| found.probabilities[**option] <= least);
    assert!(unread.count() >= silent.len() - 4);
    assert_eq!(found.mass, Some(0.0));
}
