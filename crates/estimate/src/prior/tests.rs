use super::*;
use crate::orders;
use crate::random::Random;

/// Readings of options with these strengths, by a model with this preference, in so many orders.
fn readings(strengths: &[f64], preference: &[f64], number: usize) -> Vec<WholeReading> {
    let options: Vec<usize> = (0..strengths.len()).collect();
    let read = |order: Vec<usize>| WholeReading {
        logprobs: order
            .iter()
            .zip(preference)
            .map(|(option, added)| strengths[*option] + added)
            .collect(),
        told: vec![true; order.len()],
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
fn a_square_of_orders_tells_the_preference() {
    for (preference, number) in [
        (vec![0.4, -0.4], 2),
        (vec![0.8, -0.3, -0.5], 3),
        (vec![0.9, 0.1, -0.6, -0.4], 4),
        (vec![0.9, 0.1, -0.6, -0.4, 0.0, 0.0], 4),
    ] {
        let strengths: Vec<f64> = (0..preference.len())
            .map(|option| 3.0 * (option as f64).sin())
            .collect();
        let lesson = lesson(&readings(&strengths, &preference, number)).unwrap();
        check(&lesson.preference, &preference, 1e-3);
    }
}

/// The part that is the same from either end cannot be told from strengths.
#[test]
fn two_directions_tell_half_of_the_difference() {
    let lesson = lesson(&readings(&[2.0, 0.0, 1.0], &[1.0, 0.2, 0.0], 2)).unwrap();
    check(&lesson.preference, &[0.5, 0.0, -0.5], 1e-9);
}

#[test]
fn what_does_not_say_it_is_no_lesson() {
    let two = readings(&[1.0, 0.0], &[0.4, -0.4], 2);
    assert_eq!(lesson(&[]), None);
    assert_eq!(lesson(&two[..1]), None);
    let mut bounded = two;
    bounded[1].told[0] = false;
    assert_eq!(lesson(&bounded), None);
}

#[test]
fn a_preference_is_believed_when_enough_is_known() {
    let truth = [0.8, -0.3, -0.5];
    let mut prior = LabelPrior::default();
    let mut random = Random::new(3);
    for samples in 0..200 {
        assert_eq!(prior.samples(3), samples);
        assert_eq!(prior.preference(3).is_some(), samples >= ENOUGH, "{samples}");
        let strengths = [(); 3].map(|()| 4.0 * random.unit());
        let mut readings = readings(&strengths, &truth, 3);
        for log in readings.iter_mut().flat_map(|reading| &mut reading.logprobs) {
            *log += random.unit() - 0.5;
        }
        prior.learn(&lesson(&readings).unwrap());
    }
    // The noise of a lesson is 0.14 at most, that of 200 a hundredth.
    check(prior.preference(3).unwrap(), &truth, 0.05);
    assert_eq!((prior.preference(2), prior.samples(2)), (None, 0));
}

#[test]
fn a_model_that_changes_is_followed() {
    let mut prior = LabelPrior::default();
    let of = |first: f64| lesson(&readings(&[0.0, 0.0], &[first, -first], 2)).unwrap();
    for _ in 0..5_000 {
        prior.learn(&of(1.0));
    }
    for _ in 0..5_000 {
        prior.learn(&of(-1.0));
    }
    check(prior.preference(2).unwrap(), &[-1.0, 1.0], 0.02);
}

#[test]
fn it_is_written_down_and_read_back() {
    let mut prior = LabelPrior::default();
    for _ in 0..9 {
        prior.learn(&lesson(&readings(&[1.0, 0.0], &[0.5, -0.5], 2)).unwrap());
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
