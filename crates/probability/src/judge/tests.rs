use super::*;
use crate::example::Truth;
use crate::random::Random;

fn example(kind: AnswerKind, probabilities: &[f64], truth: usize) -> Example {
    Example {
        kind,
        probabilities: probabilities.to_vec(),
        truth: Truth::Option(truth),
        abstain: None,
        confidence: None,
        group: None,
    }
}

fn near(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-9
}

const TEST_OPTIONS: JudgeOptions = JudgeOptions {
    errors: 0.05,
    resamples: 200,
    seed: 1,
};

#[test]
fn figures_match_manual_calculation() {
    let examples = [
        example(AnswerKind::Noul, &[0.8, 0.2], 0),
        example(AnswerKind::Noul, &[0.6, 0.4], 1),
        example(AnswerKind::Score, &[0.5, 0.25, 0.25], 2),
        Example {
            truth: Truth::Soft(vec![0.7, 0.3]),
            ..example(AnswerKind::Choice, &[0.9, 0.1], 0)
        },
    ];
    let report = judge(&examples, &TEST_OPTIONS).unwrap().unwrap();
    assert_eq!(report.examples, 4);
    assert!(near(report.accuracy, 0.5));
    let brier = (0.04 + 0.36 + (0.25 + 0.0625 + 0.5625) / 2.0 + 0.04) / 4.0;
    assert!(near(report.brier, brier), "{report:?}");
    let log_loss =
        -(0.8_f64.ln() + 0.4_f64.ln() + 0.25_f64.ln() + 0.7 * 0.9_f64.ln() + 0.3 * 0.1_f64.ln()) / 4.0;
    assert!(near(report.log_loss, log_loss));
    // Each answer has its own bin. An answer with a soft truth counts as correct by its share.
    assert!(near(report.ece.value, (0.2 + 0.6 + 0.5 + 0.2) / 4.0));
    // The expected level is 0.75; the true level is 2.
    assert!(near(report.score_error.unwrap(), 1.25));
    // The confidences are 0.6, 0.2, 0 (its levels are spread) and 0.8. The first and the last
    // answer are right.
    assert_eq!((report.auroc, report.abstain_auroc), (Some(1.0), None));
    assert!(near(report.aurc, (0.0 + 0.0 + 1.0 / 3.0 + 2.0 / 4.0) / 4.0));
    assert!(near(report.coverage, 0.5));
}

#[test]
fn rankings_do_not_depend_on_the_order_of_equals() {
    let tied = [(0.5, true), (0.5, false), (0.9, true), (0.1, false)];
    let mut other = tied;
    other.reverse();
    for examples in [tied, other] {
        assert!(near(ranking::auroc(&examples).unwrap(), 3.5 / 4.0));
        assert!(near(
            ranking::aurc(&examples),
            (0.0 + 0.25 + 1.0 / 3.0 + 0.5) / 4.0
        ));
        for (errors, expected) in [(0.0, 0.25), (0.33, 0.25), (0.34, 0.75), (0.5, 1.0)] {
            assert!(near(ranking::coverage(&examples, errors), expected), "{errors}");
        }
    }
    assert_eq!(ranking::auroc(&[(0.5, true), (0.9, true)]), None);
    assert!(near(ranking::auroc(&[(0.5, true), (0.9, false)]).unwrap(), 0.0));
    // The most confident answers are wrong and the less confident ones are right. The largest share
    // with at most the allowed error rate counts.
    let late: Vec<(f64, bool)> = (0..100).map(|place| (f64::from(place), place < 98)).collect();
    assert!(near(ranking::coverage(&late, 0.05), 1.0));
    assert!(near(ranking::coverage(&[(0.9, false)], 0.05), 0.0));
    assert_eq!(ranking::aurc(&[]), 0.0);
}

#[test]
fn abstaining_and_flips_are_judged() {
    let abstaining = |predicted: f64, is: bool| Example {
        abstain: Some((predicted, is)),
        ..example(AnswerKind::Noul, &[0.8, 0.2], 0)
    };
    let report = judge(
        &[
            abstaining(0.9, true),
            abstaining(0.2, false),
            abstaining(0.3, true),
        ],
        &TEST_OPTIONS,
    );
    assert_eq!(report.unwrap().unwrap().abstain_auroc, Some(1.0));
    let pair = |one: f64, two: f64| (vec![one, 1.0 - one], vec![two, 1.0 - two]);
    assert_eq!(
        flip_rate(&[pair(0.9, 0.6), pair(0.9, 0.4), pair(0.1, 0.4), pair(0.5, 0.5)]),
        Some(0.25)
    );
    assert_eq!(flip_rate(&[]), None);
}

/// Returns decisions that are correct with the probability `right(predicted)`.
fn predicted(number: usize, right: impl Fn(f64) -> f64, seed: u64) -> Vec<Example> {
    let mut random = Random::new(seed);
    let each = (0..number).map(|_| {
        let predicted = 0.5 + random.unit() / 2.0;
        let truth = usize::from(random.unit() >= right(predicted));
        example(AnswerKind::Noul, &[predicted, 1.0 - predicted], truth)
    });
    each.collect()
}

/// For overconfident answers (by 0.1) and calibrated ones, the interval contains the true value
/// almost always.
#[test]
fn intervals_hold_the_truth() {
    for (number, off, min) in [(600, 0.1, 88), (600, 0.0, 88), (4_000, 0.1, 88), (4_000, 0.0, 88)] {
        let held = (0..100).filter(|seed| {
            let examples = predicted(number, |predicted| predicted - off, *seed);
            let ece = judge(&examples, &TEST_OPTIONS).unwrap().unwrap().ece;
            assert!(ece.low <= ece.value && ece.value <= ece.high, "{ece:?}");
            (ece.low..=ece.high).contains(&off)
        });
        let held = held.count();
        println!("{number} {off}: {held}");
        assert!(held >= min, "{number} {off}: {held}");
    }
    let large = judge(&predicted(20_000, |predicted| predicted - 0.1, 1), &TEST_OPTIONS)
        .unwrap()
        .unwrap();
    assert!(
        (large.ece.value - 0.1).abs() < 0.01 && large.ece.high - large.ece.low < 0.03,
        "{:?}",
        large.ece
    );
    assert_eq!(large.bins.len(), BINS);
    let sizes = large.bins.iter().map(|bin| bin.examples);
    assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 2);
}

#[test]
fn equal_answers_are_in_one_bin() {
    let mut examples = predicted(100, |predicted| predicted, 1);
    for example in examples.iter_mut().take(60) {
        example.probabilities = vec![0.75, 0.25];
    }
    let report = judge(&examples, &TEST_OPTIONS).unwrap().unwrap();
    let alike: Vec<&Bin> = report
        .bins
        .iter()
        .filter(|bin| near(bin.predicted, 0.75))
        .collect();
    assert!(alike.len() == 1 && alike[0].examples == 60, "{:?}", report.bins);
    assert_eq!(report.bins.iter().map(|bin| bin.examples).sum::<usize>(), 100);
}

#[test]
fn groups_are_judged_by_themselves() {
    let mut examples = predicted(30, |_| 1.0, 1);
    examples[0].group = Some("mail".to_owned());
    examples[1].group = Some("mail".to_owned());
    let groups = judge_groups(&examples, &TEST_OPTIONS).unwrap();
    let sizes: Vec<(&str, usize)> = groups
        .iter()
        .map(|(name, report)| (name.as_str(), report.examples))
        .collect();
    assert_eq!(sizes, [("", 28), ("mail", 2)]);
    assert_eq!(judge(&[], &TEST_OPTIONS), Ok(None));
    examples[7].truth = Truth::Option(9);
    assert_eq!(judge(&examples, &TEST_OPTIONS).unwrap_err().place, 7);
    // The same seed gives the same interval.
    let twice = [(); 2].map(|()| judge(&predicted(50, |predicted| predicted, 1), &TEST_OPTIONS));
    assert_eq!(twice[0], twice[1]);
}
