use super::*;

/// What the labels of a heat count as, as probabilities.
fn counted(logprobs: &[Option<f64>], rest: Option<f64>) -> Option<Vec<f64>> {
    let heat = Heat {
        order: (0..logprobs.len()).collect(),
    };
    let reading = HeatReading {
        logprobs: logprobs.to_vec(),
        rest,
    };
    Some(
        whole(&heat, &reading)?
            .logprobs
            .iter()
            .map(|log| log.exp())
            .collect(),
    )
}

fn check(told: &[Option<f64>], rest: Option<f64>, expected: &[f64]) {
    let logs: Vec<Option<f64>> = told.iter().map(|told| told.map(f64::ln)).collect();
    let found = counted(&logs, rest.map(f64::ln)).unwrap();
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() < 1e-9;
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn what_is_not_told_is_less_than_what_is() {
    // Nothing is missing.
    check(&[Some(0.7), Some(0.2)], Some(0.1), &[0.7, 0.2]);
    // Half of the bound; half of the least, where that is less or all there is.
    check(&[Some(0.7), None], Some(0.1), &[0.7, 0.05]);
    check(&[Some(0.5), Some(0.02), None], Some(0.1), &[0.5, 0.02, 0.01]);
    check(&[Some(0.5), Some(0.02), None], None, &[0.5, 0.02, 0.01]);
    // An even share of what is left, where that is less.
    check(
        &[Some(0.9), None, None, None, None],
        Some(0.2),
        &[0.9, 0.025, 0.025, 0.025, 0.025],
    );
    // Rounding leaves nothing, and yet nothing is impossible.
    check(&[Some(1.0), None], Some(0.1), &[1.0, 1e-9]);
}

#[test]
fn strange_numbers_are_made_plain() {
    let infinite = f64::NEG_INFINITY;
    for nothing in [None, Some(infinite), Some(f64::NAN), Some(-9_999.0)] {
        assert_eq!(counted(&[nothing, nothing], Some(-1.0)), None, "{nothing:?}");
        let found = counted(&[Some(-0.5), nothing], Some(-20.0)).unwrap();
        assert!(
            found[1] > 0.0 && found[1] < (-20.5_f64).exp(),
            "{nothing:?}: {found:?}"
        );
    }
    for (rest, is_told) in [(infinite, true), (f64::NAN, false), (f64::INFINITY, false)] {
        let found = counted(&[Some(-0.5), None], Some(rest)).unwrap();
        let floor = (-30.5_f64).exp();
        assert_eq!((found[1] - floor).abs() < 1e-20, is_told, "{rest}: {found:?}");
    }
    assert_eq!(counted(&[Some(3.0), Some(0.0)], None).unwrap(), [1.0, 1.0]);
    assert_eq!(counted(&[], None), None);
}

#[test]
fn a_reading_need_not_have_the_length_of_its_heat() {
    let heat = Heat { order: vec![4, 2, 9] };
    let reading = HeatReading {
        logprobs: vec![Some(-1.0)],
        rest: None,
    };
    let found = whole(&heat, &reading).unwrap();
    assert_eq!((found.order.len(), found.logprobs.len()), (3, 3));
    assert_eq!(found.told, [true, false, false]);
    assert!((found.mass - (-1.0_f64).exp()).abs() < 1e-12);
}
