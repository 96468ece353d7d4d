use serde_json::{Value, json};

use super::super::cases::{Manner, read};
use super::*;

fn cases(truths: &[Value]) -> Vec<Case> {
    let lines = truths.iter().map(|truth| {
        let line = json!({"state": "It is.", "truth": truth, "group": "g", "questions": {
            "yes": {"type": "noul", "instructions": "Is it?", "abstain": true},
            "team": {"type": "choice", "instructions": "Who?", "criteria": {"a": null, "b": null}},
        }});
        format!("{line}\n")
    });
    let manner = Manner {
        model: "sim/decide".to_owned(),
        calibration: None,
    };
    read(&lines.collect::<String>(), &manner).unwrap()
}

fn probable(first: f64, abstain: Option<f64>) -> Said {
    Said::Answered(Probable {
        probabilities: vec![first, 1.0 - first],
        confidence: None,
        abstain,
        source: Some("native".to_owned()),
    })
}

fn outcome(place: usize, said: Vec<Said>, milliseconds: u64) -> Outcome {
    Outcome {
        place,
        said,
        orders: vec![(vec![0.9, 0.1], vec![0.1, 0.9])],
        took: Duration::from_millis(milliseconds),
        cost: Credits::from_nanos(100),
        cost_of_orders: Credits::from_nanos(50),
    }
}

#[test]
fn what_cannot_be_answered_counts_for_abstention_alone() {
    let cases = cases(&[
        json!({"yes": true, "team": "a"}),
        json!({"yes": null, "team": "b"}),
        json!({"yes": false}),
    ]);
    let outcomes = vec![
        outcome(2, vec![probable(0.4, Some(0.1)), Said::Refused], 30),
        outcome(0, vec![probable(0.9, Some(0.2)), probable(0.8, None)], 10),
        outcome(1, vec![probable(0.5, Some(0.7)), probable(0.6, None)], 20),
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
fn nothing_to_judge_is_no_figure() {
    let found = of("sim/decide", &[], Vec::new(), vec![(1, "no".to_owned())])
        .unwrap()
        .evaluation;
    assert_eq!(
        (found.all, found.cost_per_1000_decisions, found.order_flips),
        (None, None, None)
    );
    assert_eq!(found.latency, Latency::default());
}
