use super::*;
use crate::orders;
use crate::random::Random;

/// Returns readings in `number` orders by a model with these strengths and this preference.
fn readings(strengths: &[f64], preference: &[f64], number: usize) -> Vec<WholeReading> {
    let options: Vec<usize> = (0..strengths.len()).collect();
    let read = |order: Vec<usize>| WholeReading {
        logprobs: order
            .iter()
            .zip(preference)
            .map(|(option, added)| strengths[*option] + added)
            .collect(),
        reported: vec![true; order.len()],
        mass: 1.0,
        order,
    };
    orders::of(&options, number).into_iter().map(read).collect()
}

fn check(found: &[f64], expected: &[f64], bound: f64) {
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() <= bound;
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn square_of_orders_reveals_the_preference() {
    for (preference, number) in [
        (vec![0.4, -0.4], 2),
        (vec![0.8, -0.3, -0.5], 3),
        (vec![0.9, 0.1, -0.6, -0.4], 4),
        (vec![0.9, 0.1, -0.6, -0.4, 0.0, 0.0], 4),
    ] {
        let strengths: Vec<f64> = (0..preference.len())
            .map(|option| 3.0 * (option as f64).sin())
            .collect();
        let observation = observation(&readings(&strengths, &preference, number)).unwrap();
        check(&observation.preference, &preference, 1e-3);
    }
}

/// The symmetric part of a preference cannot be separated from the strengths.
#[test]
fn two_directions_reveal_half_of_the_difference() {
    let observation = observation(&readings(&[2.0, 0.0, 1.0], &[1.0, 0.2, 0.0], 2)).unwrap();
    check(&observation.preference, &[0.5, 0.0, -0.5], 1e-9);
}

#[test]
fn incomplete_readings_give_no_observation() {
    let two = readings(&[1.0, 0.0], &[0.4, -0.4], 2);
    assert_eq!(observation(&[]), None);
    assert_eq!(observation(&two[..1]), None);
    let mut bounded = two;
    bounded[1].reported[0] = false;
    assert_eq!(observation(&bounded), None);
}

#[test]
fn preference_applies_after_enough_samples() {
    let truth = [0.8, -0.3, -0.5];
    let mut prior = LabelPrior::default();
    let mut random = Random::new(3);
    for samples in 0..200 {
        assert_eq!(prior.samples(3), samples);
        assert_eq!(prior.preference(3).is_some(), samples >= MIN_SAMPLES, "{samples}");
        let strengths = [(); 3].map(|()| 4.0 * random.unit());
        let mut readings = readings(&strengths, &truth, 3);
        for log in readings.iter_mut().flat_map(|reading| &mut reading.logprobs) {
            *log += random.unit() - 0.5;
        }
        prior.learn(&observation(&readings).unwrap());
    }
    // The noise of one observation is at most 0.14; the noise of the mean of 200 is about 0.01.
    check(prior.preference(3).unwrap(), &truth, 0.05);
    assert_eq!((prior.preference(2), prior.samples(2)), (None, 0));
}

#[test]
fn a_model_that_changes_is_followed() {
    let mut prior = LabelPrior::default();
    let of = |first: f64| observation(&readings(&[0.0, 0.0], &[first, -first], 2)).unwrap();
    for _ in 0..5_000 {
        prior.learn(&of(1.0));
    }
    for _ in 0..5_000 {
        prior.learn(&of(-1.0));
    }
    check(prior.preference(2).unwrap(), &[-1.0, 1.0], 0.02);
}

#[test]
fn prior_round_trips_through_json() {
    let mut prior = LabelPrior::default();
    for _ in 0..9 {
        prior.learn(&observation(&readings(&[1.0, 0.0], &[0.5, -0.5], 2)).unwrap());
    }
    let written = serde_json::to_string(&prior).unwrap();
    assert_eq!(serde_json::from_str::<LabelPrior>(&written).unwrap(), prior);
    for bad in [
        r#"{"2":{"samples":9,"preference":[0.5]}}"#,
        r#"{"2":{"samples":9,"preference":[0.5,11.0]}}"#,
        r#"{"two":{"samples":9,"preference":[0.5,1.0]}}"#,
    ] {
        assert!(serde_json::from_str::<LabelPrior>(bad).is_err(), "{bad}");
    }
}
