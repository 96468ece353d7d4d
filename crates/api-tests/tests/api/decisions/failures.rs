//! Questions that fail, individually and together.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{DecisionFault, FakeUpstream};

use super::{DECISIONS, WAYS};
use crate::scene::{Scene, assert_error};

fn question(text: &str) -> Value {
    json!({"type": "noul", "instructions": text})
}

/// Covers every position of the failing question and several error codes.
#[tokio::test]
async fn a_failed_question_is_free_and_the_others_are_answered() {
    let scene = Scene::start().await;
    for (model, _, _) in WAYS {
        let ask = |questions: Value| json!({"model": model, "state": "It is.", "questions": questions});
        let fine = [
            "[[decide * yes=1 no=0]] Is it?",
            "[[decide * yes=0 no=1]] Is it not?",
        ]
        .map(question);
        let whole = json!({"a": fine[0], "b": fine[1]});
        let whole = scene.post(DECISIONS, &ask(whole)).await.json();
        for code in ["upstream_error", "invalid_parameter"] {
            let wrong = question(&format!("[[decide * fail={code}]] Is it?"));
            for questions in [
                json!({"x": wrong, "a": fine[0], "b": fine[1]}),
                json!({"a": fine[0], "x": wrong, "b": fine[1]}),
                json!({"a": fine[0], "b": fine[1], "x": wrong}),
                json!({"x": wrong, "y": wrong, "a": fine[0], "b": fine[1]}),
            ] {
                let response = scene.post(DECISIONS, &ask(questions.clone())).await;
                assert_eq!(response.status, 200, "{model} {questions}: {}", response.text());
                let part = response.json();
                assert_eq!(part["answers"]["x"]["type"], "error", "{part}");
                for name in ["a", "b"] {
                    let (found, alone) = (&part["answers"][name]["noul"], &whole["answers"][name]["noul"]);
                    let (found, alone) = (found.as_f64().unwrap(), alone.as_f64().unwrap());
                    assert!((found - alone).abs() < 0.35, "{model} {questions}: {part}");
                }
                assert_eq!(
                    part["usage"]["cost"], whole["usage"]["cost"],
                    "{model} {questions}: {part}"
                );
            }
        }
        let refused = question("[[decide * refuse]] Is it?");
        for questions in [
            json!({"x": refused}),
            json!({"a": fine[0], "x": refused}),
            json!({"x": refused, "a": fine[0]}),
        ] {
            let response = scene.post(DECISIONS, &ask(questions.clone())).await;
            assert_eq!(response.status, 200, "{model} {questions}: {}", response.text());
            let answers = &response.json()["answers"];
            assert_eq!(answers["x"], json!({"type": "refusal"}), "{model}");
            assert_eq!(
                answers["a"]["type"] == "noul",
                questions.get("a").is_some(),
                "{model} {answers}"
            );
        }
        let all = json!({"x": question("[[decide * fail=upstream_error]] Is it?")});
        let response = scene.post(DECISIONS, &ask(all)).await;
        assert_error(model, &response, "upstream_error", None);
    }
    scene.finish().await;
}

/// One question makes the server fail the whole request. The gateway then sends the other questions
/// separately.
#[tokio::test]
async fn other_questions_are_retried_without_the_failing_one() {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        r#"
[providers.native]
preset = "llama.cpp"
base_url = "{}"

[models."acme/native"]
targets = ["native/native-v1"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
"#,
        upstream.base_url()
    );
    let scene = Scene::start_with(&config).await;
    let named = |number: usize| {
        (
            format!("q{number}"),
            question(&format!("[[decide * yes=0.75]] Is it {number}.?")),
        )
    };
    let questions: serde_json::Map<String, Value> = (0..20).map(named).collect();
    let ask = json!({"model": "acme/native", "state": "It is.", "questions": questions});
    let whole = scene.post(DECISIONS, &ask).await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    let (whole, before) = (whole.json(), upstream.request_count());
    assert_eq!(whole["answers"]["q0"]["method"]["source"], "native", "{whole}");
    upstream.set_decision_fault(Some(DecisionFault::FailsAt("Is it 13.?")));
    let part = scene.post(DECISIONS, &ask).await;
    assert_eq!(part.status, 200, "{}", part.text());
    let part = part.json();
    for (name, answer) in part["answers"].as_object().unwrap() {
        let expected = if name == "q13" { "error" } else { "noul" };
        assert_eq!(answer["type"], expected, "{name}: {answer}");
    }
    assert!(nanos(&part["usage"]["cost"]) < nanos(&whole["usage"]["cost"]));
    // Bisection finds the failing question of twenty.
    assert!(
        upstream.request_count() - before <= 11,
        "{}",
        upstream.request_count() - before
    );
    // A question with `abstain` is sent separately, so that neither failure affects the other
    // answer.
    let mut open = question("[[decide * yes=0.75]] May it be open?");
    open["abstain"] = json!(true);
    let two = json!({"model": "acme/native", "state": "It is.", "questions": {"whole": questions["q0"], "open": open}});
    let at_both = scene.post(DECISIONS, &two).await.json();
    assert!(at_both["answers"]["open"]["abstain"].is_number(), "{at_both}");
    for (words, fails, answers) in [
        ("May it be open?", "open", "whole"),
        ("Is it 0.?", "whole", "open"),
    ] {
        upstream.set_decision_fault(Some(DecisionFault::FailsAt(words)));
        let response = scene.post(DECISIONS, &two).await;
        assert_eq!(response.status, 200, "{words}: {}", response.text());
        let part = response.json();
        assert_eq!(part["answers"][fails]["type"], "error", "{part}");
        assert_eq!(part["answers"][answers], at_both["answers"][answers], "{part}");
    }
    upstream.set_decision_fault(Some(DecisionFault::FailsAt("Is it")));
    let response = scene.post(DECISIONS, &ask).await;
    assert_error("all of them", &response, "upstream_error", None);
    scene.finish().await;
}
