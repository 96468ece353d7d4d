use serde_json::{Value, json};

use super::super::cases::{EvaluationTarget, read};
use super::*;

fn cases(truths: &[Value]) -> Vec<Case> {
    let lines = truths.iter().map(|truth| {
        let line = json!({"state": "It is.", "truth": truth, "group": "g", "questions": {
            "yes": {"type": "noul", "instructions": "Is it?", "abstain": true},
            "team": {"type": "choice", "instructions": "Who?", "criteria": {"a": null, "b": null}},
        }});
        format!("{line}\n")
    });
    let target = EvaluationTarget {
        model: "sim/decide".to_owned(),
        calibration: None,
    };
    read(&lines.collect::<String>(), &target).unwrap()
}

fn answered(first: f64, abstain: Option<f64>) -> ParsedAnswer {
    ParsedAnswer::Answered(AnswerProbabilities {
        probabilities: vec![first, 1.0 - first],
        confidence: None,
        abstain,
        source: Some("native".to_owned()),
    })
}

fn outcome(place: usize, parsed: Vec<ParsedAnswer>, milliseconds: u64) -> Outcome {
    Outcome {
        place,
        parsed,
        orders: vec![(vec![0.9, 0.1], vec![0.1, 0.9])],
        took: Duration::from_millis(milliseconds),
        cost: Credits::from_nanos(100),
        cost_of_orders: Credits::from_nanos(50),
    }
}

#[test]
fn unanswerable_questions_count_for_abstention_alone() {
    let cases = cases(&[
        json!({"yes": true, "team": "a"}),
        json!({"yes": null, "team": "b"}),
        json!({"yes": false}),
    ]);
    let outcomes = vec![
        outcome(2, vec![answered(0.4, Some(0.1)), ParsedAnswer::Refused], 30),
        outcome(0, vec![answered(0.9, Some(0.2)), answered(0.8, None)], 10),
        outcome(1, vec![answered(0.5, Some(0.7)), answered(0.6, None)], 20),
    ];
    let found = of("sim/decide", &cases, outcomes, vec![(4, "no".to_owned())]).unwrap();
    let evaluation = &found.evaluation;
    assert_eq!(
        (evaluation.lines, evaluation.decisions, evaluation.unanswered),
        (3, 5, 1)
    );
    assert_eq!(found.examples.len(), 4);
    assert_eq!(evaluation.abstain_auroc, Some(1.0));
    assert_eq!(evaluation.all.as_ref().unwrap().accuracy, 0.75);
    assert_eq!(evaluation.by_type["noul"].accuracy, 1.0);
    assert_eq!(evaluation.by_group["g"].examples, 4);
    assert_eq!(evaluation.order_flips, Some(1.0));
    assert_eq!(
        (evaluation.latency.p50_ms, evaluation.latency.p95_ms),
        (20.0, 30.0)
    );
    assert_eq!(evaluation.cost, Credits::from_nanos(450));
    assert_eq!(
        evaluation.cost_per_1000_decisions,
        Some(Credits::from_nanos(60_000))
    );
    assert!(
        evaluation.diagram().starts_with("<svg"),
        "{}",
        evaluation.diagram()
    );
    assert!(
        found.examples[0].probabilities[0] > 0.89,
        "in the order of the lines"
    );
}

#[test]
fn empty_evaluations_have_no_metrics() {
    let found = of("sim/decide", &[], Vec::new(), vec![(1, "no".to_owned())])
        .unwrap()
        .evaluation;
    assert_eq!(
        (found.all, found.cost_per_1000_decisions, found.order_flips),
        (None, None, None)
    );
    assert_eq!(found.latency, Latency::default());
}
