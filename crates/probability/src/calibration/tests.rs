use super::*;
use crate::example::Truth;
use crate::random::Random;
use crate::simplex::from_logs;

/// Returns decisions of a model that predicts `softmax(l * scale)` where `softmax(l)` is true.
fn examples(kind: AnswerKind, options: usize, number: usize, scale: f64, seed: u64) -> Vec<Example> {
    let mut random = Random::new(seed);
    let each = (0..number).map(|_| {
        let logits: Vec<f64> = (0..options).map(|_| 4.0 * (random.unit() - 0.5)).collect();
        let predicted: Vec<f64> = logits.iter().map(|log| log * scale).collect();
        let mut left = random.unit();
        let truth = from_logs(&logits).iter().position(|p| {
            left -= p;
            left < 0.0
        });
        Example {
            kind,
            probabilities: from_logs(&predicted),
            truth: Truth::Option(truth.unwrap_or(0)),
            abstain: None,
            confidence: None,
            group: None,
        }
    });
    each.collect()
}

#[test]
fn a_temperature_is_found() {
    for (kind, options, scale) in [
        (AnswerKind::Noul, 2, 2.0),
        (AnswerKind::Choice, 4, 0.5),
        (AnswerKind::Score, 10, 3.0),
        (AnswerKind::Tool, 30, 1.0),
    ] {
        let profile = Profile::fit(&examples(kind, options, 900, scale, 1)).unwrap();
        let [found] = profile.temperatures() else {
            panic!("{:?}", profile.temperatures());
        };
        assert_eq!(
            (found.kind, found.options, found.labels),
            (kind, width(options), 900)
        );
        assert!(
            (found.temperature / scale - 1.0).abs() < 0.15,
            "{kind:?}: {} {scale}",
            found.temperature
        );
        assert_eq!(profile.isotonic(), None);
    }
}

#[test]
fn missing_width_uses_the_nearest() {
    let mut labels = examples(AnswerKind::Choice, 4, 200, 2.0, 1);
    labels.extend(examples(AnswerKind::Choice, 40, 200, 0.5, 2));
    labels.extend(examples(
        AnswerKind::Score,
        4,
        LABELS_OF_A_TEMPERATURE - 1,
        2.0,
        3,
    ));
    let profile = Profile::fit(&labels).unwrap();
    let max = |kind, options: usize| {
        let mut predicted = vec![0.5 / (options - 1) as f64; options];
        predicted[0] = 0.5;
        profile.apply(kind, &predicted)[0]
    };
    assert!(max(AnswerKind::Choice, 3) < 0.48 && max(AnswerKind::Choice, 8) < 0.48);
    assert!(max(AnswerKind::Choice, 50) > 0.52 && max(AnswerKind::Choice, 255) > 0.52);
    // These kinds have too few labels, or none.
    assert!((max(AnswerKind::Score, 4) - 0.5).abs() < 1e-12);
    assert!((max(AnswerKind::Noul, 2) - 0.5).abs() < 1e-12);
}

#[test]
fn many_yes_and_no_have_a_curve() {
    let few = Profile::fit(&examples(AnswerKind::Noul, 2, LABELS_OF_A_CURVE - 1, 3.0, 1)).unwrap();
    let many = Profile::fit(&examples(AnswerKind::Noul, 2, 4_000, 3.0, 1)).unwrap();
    assert_eq!(few.isotonic(), None);
    let curve = many.isotonic().unwrap();
    assert!(is_curve(curve) && curve.len() > 5, "{curve:?}");
    let (mut off, mut before) = (0.0, 0.0);
    for tenth in -15..=15 {
        let log = f64::from(tenth) / 10.0;
        let yes = |log: f64| 1.0 / (1.0 + (-log).exp());
        let found = many.apply(AnswerKind::Noul, &[yes(3.0 * log), 1.0 - yes(3.0 * log)]);
        off += (found[0] - yes(log)).abs() / 31.0;
        assert!(found[0] >= before && (found[0] + found[1] - 1.0).abs() < 1e-12);
        before = found[0];
    }
    assert!(off < 0.04, "{off}");
    // The curve applies to yes/no answers only, and never returns 0 or 1.
    assert!(
        many.apply(AnswerKind::Noul, &[1.0, 0.0])[0] < 1.0
            && many.apply(AnswerKind::Noul, &[0.0, 1.0])[0] > 0.0
    );
    assert_eq!(many.apply(AnswerKind::Choice, &[0.9, 0.1]), [0.9, 0.1]);
}

/// A model that is always right, or always wrong, has a temperature within the range.
#[test]
fn temperatures_have_bounds() {
    let always = |right: usize| -> Vec<Example> {
        let mut all = examples(AnswerKind::Choice, 2, 100_000, 1.0, 1);
        for example in &mut all {
            example.probabilities = vec![0.6, 0.4];
            example.truth = Truth::Option(right);
        }
        all
    };
    for right in [0, 1] {
        let profile = Profile::fit(&always(right)).unwrap();
        let found = profile.temperatures()[0].temperature;
        assert!(TEMPERATURES.contains(&found), "{found}");
        assert_eq!(found < 0.2, right == 0);
        let extreme = profile.apply(AnswerKind::Choice, &[1.0, 0.0]);
        assert!(extreme.iter().all(|p| p.is_finite()) && (extreme.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn profiles_are_checked_when_they_are_read() {
    let profile = Profile::fit(&examples(AnswerKind::Noul, 2, 1_500, 2.0, 1)).unwrap();
    let written = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&written).unwrap(), profile);
    assert_eq!(serde_json::from_str::<Profile>("{}").unwrap(), Profile::default());
    let temperature = |options: usize, temperature: f64| {
        format!(
            r#"{{"temperatures":[{{"kind":"noul","options":{options},"temperature":{temperature},"labels":30}}]}}"#
        )
    };
    for (text, is_fine) in [
        (temperature(2, 0.05), true),
        (temperature(2, 20.0), true),
        (temperature(2, 0.049), false),
        (temperature(2, 20.1), false),
        (temperature(3, 1.0), false),
        (r#"{"isotonic":[[0.1,0.2],[0.5,0.2]]}"#.to_owned(), true),
        (r#"{"isotonic":[]}"#.to_owned(), false),
        (r#"{"isotonic":[[0.1,0.2],[0.1,0.3]]}"#.to_owned(), false),
        (r#"{"isotonic":[[0.1,0.2],[0.2,0.1]]}"#.to_owned(), false),
        (r#"{"isotonic":[[0.1,1.2]]}"#.to_owned(), false),
    ] {
        assert_eq!(serde_json::from_str::<Profile>(&text).is_ok(), is_fine, "{text}");
    }
}

#[test]
fn pools_rise() {
    let labels: Vec<(f64, f64)> = (0..100).map(|label| (0.5, f64::from(label % 2))).collect();
    assert_eq!(isotonic::fit(labels).len(), 1);
    for (points, predicted, expected) in [
        (vec![(0.2, 0.1), (0.6, 0.5)], 0.4, 0.3),
        (vec![(0.2, 0.1), (0.6, 0.5)], 0.1, 0.1),
        (vec![(0.2, 0.1), (0.6, 0.5)], 0.6, 0.5),
        (vec![(0.2, 0.1)], 0.9, 0.1),
        (vec![], 0.9, 0.9),
    ] {
        let found = isotonic::at(&points, predicted);
        assert!(
            (found - expected).abs() < 1e-12,
            "{points:?} {predicted}: {found}"
        );
    }
}
