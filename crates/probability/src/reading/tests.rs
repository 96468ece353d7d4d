use super::*;

/// Returns the label probabilities of a completed reading.
fn counted(logprobs: &[Option<f64>], rest: Option<f64>) -> Option<Vec<f64>> {
    let round = Round {
        order: (0..logprobs.len()).collect(),
    };
    let reading = RoundReading {
        logprobs: logprobs.to_vec(),
        rest,
    };
    Some(
        whole(&round, &reading)?
            .logprobs
            .iter()
            .map(|log| log.exp())
            .collect(),
    )
}

fn check(reported: &[Option<f64>], rest: Option<f64>, expected: &[f64]) {
    let logs: Vec<Option<f64>> = reported.iter().map(|reported| reported.map(f64::ln)).collect();
    let found = counted(&logs, rest.map(f64::ln)).unwrap();
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() < 1e-9;
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn unreported_labels_are_bounded() {
    // All labels are reported.
    check(&[Some(0.7), Some(0.2)], Some(0.1), &[0.7, 0.2]);
    // The value is half of `rest`, or half of the smallest reported value if that is less or if
    // `rest` is absent.
    check(&[Some(0.7), None], Some(0.1), &[0.7, 0.05]);
    check(&[Some(0.5), Some(0.02), None], Some(0.1), &[0.5, 0.02, 0.01]);
    check(&[Some(0.5), Some(0.02), None], None, &[0.5, 0.02, 0.01]);
    // The value is an equal share of the remaining probability if that is less.
    check(
        &[Some(0.9), None, None, None, None],
        Some(0.2),
        &[0.9, 0.025, 0.025, 0.025, 0.025],
    );
    // Rounding leaves no probability for the label, but no label is impossible.
    check(&[Some(1.0), None], Some(0.1), &[1.0, 1e-9]);
}

#[test]
fn non_finite_logprobs_are_normalized() {
    let infinite = f64::NEG_INFINITY;
    for nothing in [None, Some(infinite), Some(f64::NAN), Some(-9_999.0)] {
        assert_eq!(counted(&[nothing, nothing], Some(-1.0)), None, "{nothing:?}");
        let found = counted(&[Some(-0.5), nothing], Some(-20.0)).unwrap();
        assert!(
            found[1] > 0.0 && found[1] < (-20.5_f64).exp(),
            "{nothing:?}: {found:?}"
        );
    }
    for (rest, is_reported) in [(infinite, true), (f64::NAN, false), (f64::INFINITY, false)] {
        let found = counted(&[Some(-0.5), None], Some(rest)).unwrap();
        let min_logprob = (-30.5_f64).exp();
        assert_eq!(
            (found[1] - min_logprob).abs() < 1e-20,
            is_reported,
            "{rest}: {found:?}"
        );
    }
    assert_eq!(counted(&[Some(3.0), Some(0.0)], None).unwrap(), [1.0, 1.0]);
    assert_eq!(counted(&[], None), None);
}

#[test]
fn short_readings_are_padded() {
    let round = Round { order: vec![4, 2, 9] };
    let reading = RoundReading {
        logprobs: vec![Some(-1.0)],
        rest: None,
    };
    let found = whole(&round, &reading).unwrap();
    assert_eq!((found.order.len(), found.logprobs.len()), (3, 3));
    assert_eq!(found.reported, [true, false, false]);
    assert!((found.mass - (-1.0_f64).exp()).abs() < 1e-12);
}
