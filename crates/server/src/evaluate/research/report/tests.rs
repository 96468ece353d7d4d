use serde_json::json;

use super::super::cases::{Format, read};
use super::*;

fn outcome(place: usize, found: Vec<bool>, seconds: u64) -> Outcome {
    Outcome {
        place,
        citations: 4,
        wrong_citations: if place == 0 { vec![3] } else { Vec::new() },
        unverified_citations: 1,
        citation_accuracy: Some(1.0),
        claims: 10,
        first_verified: 9.0,
        statements: 5,
        answering: usize::from(!found.is_empty()),
        found,
        leaks: vec!["https://a.example/".to_owned()],
        searches: 2,
        pages: 3,
        is_degraded: place == 1,
        cost: Credits::from_nanos(100),
        took: Duration::from_secs(seconds),
        judged: 4,
        supported: 3,
        judge_cost: 7,
    }
}

#[test]
fn scores_are_sums_over_reports_and_groups() {
    let lines = [
        json!({"query": "A?", "answers": ["1", "2"], "group": "x"}),
        json!({"query": "B?", "answers": ["3"], "group": "y"}),
        json!({"query": "C?"}),
        json!({"query": "D?"}),
    ];
    let cases = read(&lines.map(|line| line.to_string()).join("\n"), Format::Shipped).unwrap();
    let target = ResearchTarget {
        model: "m".to_owned(),
        effort: None,
        judge: Some("j".to_owned()),
    };
    let outcomes = vec![
        outcome(2, vec![], 1),
        outcome(0, vec![true, false], 3),
        outcome(1, vec![true], 2),
    ];
    let found = of(&target, &cases, outcomes, vec![(4, "no".to_owned())]);
    let all = &found.all;
    assert_eq!(
        (all.reports, all.citations, all.answers, all.statements),
        (3, 12, 3, 10)
    );
    assert_eq!(all.citation_check, Some(11.0 / 12.0));
    assert_eq!(all.first_accuracy, Some(0.9));
    assert_eq!((all.recall, all.precision), (Some(2.0 / 3.0), Some(0.2)));
    assert_eq!((all.judged, all.support), (12, Some(0.75)));
    assert_eq!(found.by_group["x"].recall, Some(0.5));
    assert_eq!(
        (found.by_group[""].recall, found.by_group[""].precision),
        (None, None)
    );
    assert_eq!(
        (found.wrong_citations[0].line, found.wrong_citations[0].citation),
        (1, 3)
    );
    assert_eq!(found.filter_leaks.len(), 3);
    assert_eq!(
        (found.missing_answers.len(), &*found.missing_answers[0].answer),
        (1, "2")
    );
    assert_eq!((found.searches, found.pages, found.degraded), (6, 9, 1));
    assert_eq!((found.cost.nanos(), found.judge_cost.nanos()), (300, 21));
    assert_eq!((found.time.p50_s, found.time.max_s), (2.0, 3.0));
    assert_eq!(found.failed[0].line, 4);
    let none = of(&target, &cases, Vec::new(), Vec::new());
    assert_eq!(
        (none.all, none.time),
        (ReportScores::default(), ReportTimes::default())
    );
}
