//! `POST /v1/decisions`: every method recovers the true probabilities, in the shape of the
//! questions, for the price of the input.

mod documented;
mod draws;
mod failures;
mod limits;
mod uploads;

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use crate::scene::{Scene, assert_error};

const DECISIONS: &str = "/v1/decisions";
/// The simulator's models, the sources of their probabilities, and their tolerances.
const WAYS: [(&str, &str, f64); 4] = [
    ("sim/decide", "native", 0.001),
    ("sim/decide-logits", "logits", 0.001),
    ("sim/decide-logprobs", "top_logprobs", 0.001),
    ("sim/decide-sampled", "sampled", 0.35),
];

/// Builds a request with questions of every type. The state contains their true probabilities.
fn asked(model: &str) -> Value {
    json!({
        "model": model,
        "state": {
            "message": "I was charged twice.",
            "truth": "[[decide refund yes=0.9 no=0.1 abstain=0.2]] [[decide team billing=0.7 tech=0.2 sales=0.1]] \
                      [[decide urgency low=0.1 middle=0.2 high=0.7]]",
        },
        "questions": {
            "refund": {"type": "noul", "instructions": "[[decide refund]] Is money asked for?", "abstain": true},
            "team": {"type": "choice", "instructions": "[[decide team]] Who answers?",
                "criteria": {"billing": "Payments", "tech": null, "sales": null}},
            "urgency": {"type": "score", "instructions": "[[decide urgency]] How urgent is it?",
                "criteria": ["low", "middle", "high"]},
        },
    })
}

fn near(what: &str, found: &Value, truth: f64, within: f64) {
    let found = found.as_f64().unwrap_or(f64::NAN);
    assert!((found - truth).abs() <= within, "{what}: {found} is not {truth}");
}

#[tokio::test]
async fn every_method_recovers_true_probabilities_at_the_same_price() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let mut costs = Vec::new();
        for (model, source, within) in WAYS {
            let response = scene.post(DECISIONS, &asked(model)).await;
            assert_eq!(response.status, 200, "{model}: {}", response.text());
            let body = response.json();
            let answers = &body["answers"];
            near(model, &answers["refund"]["noul"], 0.9, within);
            near(model, &answers["refund"]["abstain"], 0.2, within);
            near(model, &answers["team"]["probabilities"]["billing"], 0.7, within);
            near(model, &answers["urgency"]["score"], 1.6, 2.0 * within);
            assert_eq!(answers["team"]["choice"], "billing", "{body}");
            assert_eq!(answers["team"]["method"]["source"], source, "{body}");
            assert_eq!(body["usage"]["output_tokens"], 0, "{body}");
            let row = scene.row(response.request_id()).await;
            assert_eq!(nanos(&row["cost"]), nanos(&body["usage"]["cost"]), "{row}");
            costs.push(nanos(&row["cost"]));
        }
        assert!(
            costs[0] > 0 && costs.iter().all(|cost| *cost == costs[0]),
            "{costs:?}"
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn answers_have_the_shape_and_dialect_of_their_questions() {
    let scene = Scene::start().await;
    let question = json!({"id": "q", "type": "noul", "instructions": "Is it?"});
    let body = json!({"model": "sim/decide", "state": "It is.", "questions": [question]});
    let response = scene.post("/v1/systemone", &body).await;
    assert_eq!(response.json()["answers"][0]["id"], "q", "{}", response.text());
    let question = json!({"name": "q", "type": "predicate", "instructions": "Is it?"});
    let body = json!({"model": "sim/decide", "input": "It is.", "questions": [question]});
    let response = scene.post(DECISIONS, &body).await;
    assert_eq!(
        response.json()["answers"][0]["type"],
        "predicate",
        "{}",
        response.text()
    );
    scene.finish().await;
}

#[tokio::test]
async fn invalid_questions_are_refused_without_a_charge() {
    let scene = Scene::start().await;
    let noul = json!({"type": "noul", "instructions": "Is it?"});
    let ask = |model: &str, state: Value, questions: Value| json!({"model": model, "state": state, "questions": questions});
    let one = json!({"type": "choice", "instructions": "Which?", "criteria": {"one": null}});
    let heard = json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}});
    let private = json!({"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}});
    let lie = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}});
    for (what, body, code, param) in [
        (
            "no state",
            ask("sim/decide", json!(""), json!({"q": noul})),
            "invalid_parameter",
            "state",
        ),
        (
            "one option",
            ask("sim/decide", json!("x"), json!({"q": one})),
            "invalid_parameter",
            "questions.q.criteria",
        ),
        (
            "another kind of model",
            ask("sim/embeddings", json!("x"), json!({"q": noul})),
            "unsupported_endpoint",
            "model",
        ),
        (
            "audio",
            ask("sim/decide", json!([heard]), json!({"q": noul})),
            "unsupported_parameter",
            "state[0].input_audio.data",
        ),
        (
            "a private address",
            ask("sim/decide", json!([private]), json!({"q": noul})),
            "invalid_parameter",
            "state[0].image_url.url",
        ),
        (
            "not an image",
            ask("sim/decide", json!([lie]), json!({"q": noul})),
            "invalid_parameter",
            "state[0].image_url.url",
        ),
    ] {
        let response = scene.post(DECISIONS, &body).await;
        assert_error(what, &response, code, Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
