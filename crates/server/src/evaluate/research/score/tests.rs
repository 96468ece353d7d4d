use serde_json::{Value, json};

use super::super::cases::{Format, read};
use super::*;

fn case(line: &Value) -> ResearchCase {
    read(&line.to_string(), Format::Shipped).unwrap().remove(0)
}

/// Returns a job whose report has two shown statements and a removed one.
fn job() -> Value {
    json!({"status": "completed", "cost": "0.5", "result": {
        "report": "It is 38 m high.[1] It is red.[2]",
        "citations": [
            {"id": 1, "source_id": "s1", "quote": "38 metres", "start": 2, "end": 11, "verified": true},
            {"id": 2, "source_id": "s2", "quote": "red", "start": 0, "end": 3, "verified": true},
        ],
        "sources": [
            {"id": "s1", "url": "https://a.example/", "final_url": "https://b.example/x", "date": "2020-01-01"},
            {"id": "s2", "url": "https://a.example/", "date": null},
        ],
        "claims": [
            {"text": "It is 38 m high.", "report_start": 0, "citations": [1], "status": "verified"},
            {"text": "It is red.", "report_start": 20, "citations": [2], "status": "verified"},
            {"text": "It has 99 steps.", "report_start": null, "citations": [], "status": "removed"},
        ],
        "stats": {"searches": 3, "pages": 4, "claims": 3, "first_accuracy": 0.5, "citation_accuracy": 1.0},
        "degraded": true,
    }})
}

fn texts(first: &str, second: &str) -> BTreeMap<String, Vec<char>> {
    let text = |id: &str, text: &str| (id.to_owned(), text.chars().collect());
    BTreeMap::from([text("s1", first), text("s2", second)])
}

fn scored(case: &ResearchCase, job: &Value, texts: &BTreeMap<String, Vec<char>>) -> Outcome {
    of(0, case, job, texts, Duration::from_secs(1)).unwrap()
}

#[test]
fn citations_are_compared_with_stored_texts_in_code_points() {
    let case = case(&json!({"query": "Q?"}));
    for (first, second, wrong) in [
        ("ä 38 metres", "red", vec![]),
        ("38 metres", "red", vec![1]),
        ("ä 38 metres", "re", vec![2]),
        ("ä 38 metreſ", "Red", vec![1, 2]),
    ] {
        let outcome = scored(&case, &job(), &texts(first, second));
        assert_eq!(
            (outcome.citations, outcome.wrong_citations),
            (2, wrong),
            "{first}"
        );
    }
    let mut missing = texts("ä 38 metres", "red");
    missing.remove("s2");
    assert_eq!(scored(&case, &job(), &missing).wrong_citations, [2]);
    let mut unlocated = job();
    unlocated["result"]["citations"][0]["start"] = Value::Null;
    let all = texts("ä 38 metres", "red");
    assert_eq!(scored(&case, &unlocated, &all).wrong_citations, [1]);
    unlocated["result"]["citations"][0]["verified"] = json!(false);
    let outcome = scored(&case, &unlocated, &all);
    assert_eq!(
        (
            outcome.citations,
            outcome.unverified_citations,
            outcome.wrong_citations
        ),
        (1, 1, vec![])
    );
}

#[test]
fn answers_are_found_in_shown_statements() {
    let case = case(&json!({"query": "Q?", "answers": ["38 metres", "99 steps"]}));
    let outcome = scored(&case, &job(), &texts("ä 38 metres", "red"));
    assert_eq!(
        outcome.found,
        [true, false],
        "the second is in a removed statement"
    );
    assert_eq!((outcome.statements, outcome.answering), (2, 1));
    assert_eq!(
        (outcome.searches, outcome.pages, outcome.is_degraded),
        (3, 4, true)
    );
    assert_eq!((outcome.claims, outcome.first_verified), (3, 1.5));
    assert_eq!(outcome.cost, "0.5".parse().unwrap());
    let mut plain = job();
    plain["result"]["claims"] = json!([]);
    let outcome = scored(&case, &plain, &texts("ä 38 metres", "red"));
    assert_eq!((outcome.found, outcome.statements), (vec![true, false], 0));
    let shown = job();
    let quotes: Vec<_> = statements(&shown).iter().map(|one| one.quotes.clone()).collect();
    assert_eq!(quotes, [["38 metres"], ["red"]]);
    assert_eq!(
        cited_sources(&shown).into_iter().collect::<Vec<_>>(),
        ["s1", "s2"]
    );
}

#[test]
fn sources_outside_the_filters_are_leaks() {
    for (members, expected) in [
        (json!({}), vec![]),
        (
            json!({"search_domain_filter": "a.example"}),
            vec!["https://b.example/x"],
        ),
        (
            json!({"search_before_date_filter": "2019-12-31"}),
            vec!["https://b.example/x"],
        ),
        (json!({"search_before_date_filter": "2020-01-01"}), vec![]),
    ] {
        let mut line = members.clone();
        line["query"] = json!("Q?");
        let outcome = scored(&case(&line), &job(), &texts("", ""));
        assert_eq!(outcome.leaks, expected, "{members}");
    }
    assert!(
        of(
            0,
            &case(&json!({"query": "Q?"})),
            &json!({}),
            &texts("", ""),
            Duration::ZERO
        )
        .is_err()
    );
}
