//! `/v1/decisions/calibrations`: a fitted calibration corrects the decisions of its account and
//! model, starting with the next request.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, eventually};

use crate::scene::{MODEL as LARGE, Scene, assert_error};

const DECISIONS: &str = "/v1/decisions";
const CALIBRATIONS: &str = "/v1/decisions/calibrations";
/// A model that returns exactly the probabilities in the question.
const MODEL: &str = "sim/decide";
/// A model whose labels have noisy logits if the question requests noise.
const NOISY: &str = "sim/decide-logits";

/// Examples with probability 0.9; `right` of every ten are true.
fn examples(number: usize, right: usize) -> Vec<Value> {
    let example = |place: usize| json!({"type": "noul", "probability": 0.9, "truth": place % 10 < right});
    (0..number).map(example).collect()
}

fn fit_of(model: &str, examples: &[Value]) -> Value {
    json!({"model": model, "examples": examples})
}

/// Builds a request whose question is answered with 0.9.
fn decision(options: Value) -> Value {
    let question = json!({"type": "noul", "instructions": "[[decide q yes=0.9 no=0.1]] Is it?"});
    json!({"model": MODEL, "state": "It is.", "questions": {"q": question}, "options": options})
}

impl Scene {
    async fn fit(&self, model: &str, examples: &[Value]) -> Value {
        let response = self.post(CALIBRATIONS, &fit_of(model, examples)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// Returns the probability of yes and the id of the applied calibration.
    async fn decided(&self, key: &str, options: Value) -> (f64, Value) {
        let request = Request::json(DECISIONS, &decision(options)).key(key);
        let response = self.client().send(&request).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let answer = &response.json()["answers"]["q"];
        let method = &answer["method"];
        assert_eq!(
            method["calibrated"],
            json!(method["calibration"].is_string()),
            "{answer}"
        );
        (answer["noul"].as_f64().unwrap(), method["calibration"].clone())
    }

    /// Returns the model's default calibration, as the next decision reports it.
    async fn default(&self) -> Value {
        self.decided(&self.key.secret, json!({})).await.1
    }

    async fn with_calibration(&self, method: &str, id: &Value, key: &str) -> Response {
        let path = format!("{CALIBRATIONS}/{}", id.as_str().unwrap());
        self.client().send(&Request::new(method, &path).key(key)).await
    }

    async fn choose(&self, id: &Value, is_default: bool) -> Value {
        let path = format!("{CALIBRATIONS}/{}", id.as_str().unwrap());
        let response = self.post(&path, &json!({"default": is_default})).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// Returns the ids of a page, and whether more pages follow.
    async fn calibrations(&self, query: &str) -> (Vec<Value>, bool) {
        let request = Request::get(&format!("{CALIBRATIONS}{query}")).key(&self.key.secret);
        let page = self.client().send(&request).await.json();
        let data = page["data"].as_array().unwrap();
        let ids = data.iter().map(|one| one["id"].clone()).collect();
        (ids, page["has_more"].as_bool().unwrap())
    }
}

fn near(found: f64, truth: f64) -> bool {
    (found - truth).abs() < 0.05
}

#[tokio::test]
async fn a_calibration_corrects_only_decisions_of_its_account() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let (mine, other) = (&scene.key.secret, scene.gateway.account().await);
        scene.gateway.grant(&other, "10").await;
        let theirs = scene.gateway.key(&other).await.secret;
        assert_eq!(scene.decided(mine, json!({})).await, (0.9, Value::Null));
        let fitted = scene.fit(MODEL, &examples(100, 6)).await;
        let id = &fitted["id"];
        assert!(id.as_str().unwrap().starts_with("cal_"), "{fitted}");
        assert_eq!(
            (
                &fitted["model"],
                &fitted["version"],
                &fitted["default"],
                &fitted["examples"]
            ),
            (&json!(MODEL), &json!(1), &json!(true), &json!(100)),
        );
        let temperature = &fitted["temperatures"][0];
        assert!(temperature["temperature"].as_f64().unwrap() > 2.0, "{fitted}");
        assert_eq!(
            (&temperature["type"], &temperature["options"]),
            (&json!("noul"), &json!(2))
        );
        for figure in ["log_loss", "brier", "ece"] {
            let of = |which: &str| fitted[which][figure].as_f64().unwrap();
            assert!(
                of("after") < of("before") && of("held_out") < of("before"),
                "{fitted}"
            );
        }
        for options in [
            json!({}),
            json!({"calibration": "default"}),
            json!({"calibration": id}),
        ] {
            let (yes, by) = scene.decided(mine, options).await;
            assert!(near(yes, 0.6) && by == *id, "{yes} {by}");
        }
        let none = scene.decided(mine, json!({"calibration": "none"})).await;
        assert_eq!(none, (0.9, Value::Null));
        assert_eq!(scene.with_calibration("GET", id, mine).await.json(), fitted);

        assert_eq!(scene.decided(&theirs, json!({})).await, (0.9, Value::Null));
        let request = Request::json(DECISIONS, &decision(json!({"calibration": id}))).key(&theirs);
        let named = scene.client().send(&request).await;
        assert_error("another's", &named, "not_found", Some("options.calibration"));
        for method in ["GET", "DELETE"] {
            let response = scene.with_calibration(method, id, &theirs).await;
            assert_error(method, &response, "not_found", Some("calibration_id"));
        }
        let request = Request::get(CALIBRATIONS).key(&theirs);
        let listed = scene.client().send(&request).await.json();
        assert_eq!(
            (&listed["data"], &listed["has_more"]),
            (&json!([]), &json!(false))
        );

        let deleted = scene.with_calibration("DELETE", id, mine).await;
        assert_eq!(deleted.json()["deleted"], true, "{}", deleted.text());
        assert_eq!(scene.decided(mine, json!({})).await, (0.9, Value::Null));
        let named = scene.post(DECISIONS, &decision(json!({"calibration": id}))).await;
        assert_error("deleted", &named, "not_found", Some("options.calibration"));
        scene.settled().await;
        assert_eq!(scene.rows().await.len(), 6, "fits are free and leave no row");
        scene.finish().await;
    }
}

#[tokio::test]
async fn the_newest_version_is_the_default_unless_one_was_chosen() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let key = &scene.key.secret;
        let one = scene.fit(MODEL, &examples(40, 6)).await["id"].clone();
        assert_eq!(scene.default().await, one);
        let two = scene.fit(MODEL, &examples(40, 7)).await;
        assert_eq!((&two["version"], &two["default"]), (&json!(2), &json!(true)));
        let two = two["id"].clone();
        assert_eq!(
            scene.default().await,
            two,
            "immediately, on the node that fitted it"
        );
        let noisy = scene.fit(NOISY, &examples(40, 6)).await;
        assert_eq!(noisy["version"], 1, "versions are of a model");
        let noisy = noisy["id"].clone();
        assert_eq!(scene.default().await, two);
        assert_eq!(scene.choose(&one, true).await["default"], true);
        assert_eq!(scene.default().await, one);
        let three = scene.fit(MODEL, &examples(40, 8)).await;
        assert_eq!((&three["version"], &three["default"]), (&json!(3), &json!(false)));
        let three = three["id"].clone();
        assert_eq!(scene.default().await, one);
        assert_eq!(scene.choose(&one, false).await["default"], false);
        assert_eq!(scene.default().await, three);
        let named = json!({"calibration": two});
        assert_eq!(scene.decided(key, named).await.1, two, "old versions stay");
        assert_eq!(scene.with_calibration("DELETE", &three, key).await.status, 200);
        assert_eq!(scene.default().await, two);
        let four = scene.fit(MODEL, &examples(40, 8)).await;
        assert_eq!(four["version"], 4, "a number is not used again");
        let four = four["id"].clone();

        let all = [&four, &noisy, &two, &one].map(Value::clone).to_vec();
        assert_eq!(scene.calibrations("").await, (all.clone(), false));
        assert_eq!(scene.calibrations("?limit=2").await, (all[..2].to_vec(), true));
        let after = format!("?limit=2&after={}", noisy.as_str().unwrap());
        assert_eq!(scene.calibrations(&after).await, (all[2..].to_vec(), false));
        let of_model = format!("?model={MODEL}&after={}", four.as_str().unwrap());
        assert_eq!(scene.calibrations(&of_model).await, (all[2..].to_vec(), false));
        scene.finish().await;
    }
}

#[tokio::test]
async fn calibrations_of_other_nodes_take_effect() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let second = scene.gateway.start_node(options).await;
    assert_eq!(
        scene.default().await,
        Value::Null,
        "no calibration exists, which is cached"
    );
    let request = Request::json(CALIBRATIONS, &fit_of(MODEL, &examples(40, 6))).key(&scene.key.secret);
    let fitted = second.client().send(&request).await.json();
    eventually("the calibration of the other node corrects", async || {
        scene.default().await == fitted["id"]
    })
    .await;
    second.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_calibration_of_an_alias_belongs_to_its_model() {
    let scene = Scene::start().await;
    let fitted = scene.fit("large", &examples(40, 6)).await;
    assert_eq!(fitted["model"], LARGE);
    for name in ["large", LARGE] {
        let found = scene.calibrations(&format!("?model={name}")).await;
        assert_eq!(found, (vec![fitted["id"].clone()], false));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

/// Sends 128 questions; the correct answer to 70 % of them is yes. Returns the mean log loss and
/// the answers as examples.
async fn noisy_answers(scene: &Scene, from: usize, calibration: &str) -> (f64, Vec<Value>) {
    let asked = |place: usize| {
        let text = format!("[[decide q{place} yes=0.7 no=0.3 noise=2]] Is it number {place}?");
        (format!("q{place}"), json!({"type": "noul", "instructions": text}))
    };
    let questions: serde_json::Map<String, Value> = (from..from + 128).map(asked).collect();
    let body = json!({"model": NOISY, "state": "It is.", "questions": questions,
        "options": {"calibration": calibration, "permutations": 2}});
    let response = scene.post(DECISIONS, &body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let answers = response.json()["answers"].take();
    let each = (from..from + 128).map(|place| {
        let yes = answers[format!("q{place}")]["noul"].as_f64().unwrap();
        json!({"type": "noul", "probability": yes, "truth": place % 10 < 7})
    });
    let examples: Vec<Value> = each.collect();
    let loss = |example: &Value| {
        let yes = example["probability"].as_f64().unwrap();
        let right = if example["truth"] == true { yes } else { 1.0 - yes };
        -right.max(1e-12).ln()
    };
    let whole: f64 = examples.iter().map(loss).sum();
    (whole / 128.0, examples)
}

#[tokio::test]
async fn a_calibration_improves_new_answers_of_a_noisy_model() {
    let scene = Scene::start().await;
    let (_, examples) = noisy_answers(&scene, 0, "none").await;
    let fitted = scene.fit(NOISY, &examples).await;
    let (without, _) = noisy_answers(&scene, 1_000, "none").await;
    let (with, _) = noisy_answers(&scene, 1_000, "default").await;
    assert!(with < without - 0.05, "{with} and not {without}: {fitted}");
    let expected = fitted["held_out"]["log_loss"].as_f64().unwrap();
    assert!(
        (with - expected).abs() < 0.15,
        "{with} where {expected} was predicted"
    );
    scene.finish().await;
}

#[tokio::test]
async fn calibration_limits_are_exact() {
    let scene = Scene::start().await;
    let key = &scene.key.secret;
    for (number, is_fine) in [(29, false), (30, true), (50_000, true), (50_001, false)] {
        let response = scene
            .post(CALIBRATIONS, &fit_of(MODEL, &examples(number, 6)))
            .await;
        match is_fine {
            true => assert_eq!(response.status, 200, "{number}: {}", response.text()),
            false => {
                assert_error("examples", &response, "invalid_parameter", Some("examples"));
            }
        }
    }
    let mut large = fit_of(MODEL, &examples(30, 6));
    large["name"] = json!("x".repeat(8 << 20));
    let response = scene.post(CALIBRATIONS, &large).await;
    assert_error("8 MiB", &response, "request_too_large", None);
    for (name, is_fine) in [("x".repeat(100), true), ("x".repeat(101), false)] {
        let mut named = fit_of(MODEL, &examples(30, 6));
        named["name"] = json!(name);
        let response = scene.post(CALIBRATIONS, &named).await;
        assert_eq!(response.status == 200, is_fine, "{}", response.text());
    }
    for _ in 3..100 {
        scene.fit(MODEL, &examples(30, 6)).await;
    }
    let more = fit_of(NOISY, &examples(30, 6));
    let response = scene.post(CALIBRATIONS, &more).await;
    assert_error("the hundred and first", &response, "invalid_parameter", None);
    let (page, has_more) = scene.calibrations("?limit=100").await;
    assert_eq!((page.len(), has_more), (100, false));
    let deleted = scene.with_calibration("DELETE", &page[7], key).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    scene.fit(NOISY, &examples(30, 6)).await;
    scene.finish().await;
}

#[tokio::test]
async fn invalid_fits_and_calibrations_are_refused_with_their_parameter() {
    let scene = Scene::start().await;
    let with = |place: usize, example: Value| {
        let mut all = examples(40, 6);
        all[place] = example;
        fit_of(MODEL, &all)
    };
    let choice = |said: Value, truth: Value| json!({"type": "choice", "probabilities": said, "truth": truth});
    let few: Vec<Value> = (2..32)
        .map(|options: usize| choice(json!(vec![1.0 / options as f64; options]), json!(0)))
        .collect();
    for (what, body, code, param) in [
        (
            "no model",
            json!({"examples": []}),
            "missing_required_parameter",
            Some("model"),
        ),
        (
            "an unknown model",
            fit_of("sim/none", &examples(30, 6)),
            "model_not_found",
            Some("model"),
        ),
        (
            "another kind of model",
            fit_of("sim/embeddings", &examples(30, 6)),
            "unsupported_endpoint",
            Some("model"),
        ),
        (
            "a sum that is not one",
            with(3, choice(json!([0.5, 0.6]), json!(0))),
            "invalid_parameter",
            Some("examples[3].probabilities"),
        ),
        (
            "no option",
            with(4, choice(json!({"a": 0.5, "b": 0.5}), json!("c"))),
            "invalid_parameter",
            Some("examples[4].truth"),
        ),
        (
            "beyond the options",
            with(5, choice(json!([0.5, 0.5]), json!(2))),
            "invalid_parameter",
            Some("examples[5].truth"),
        ),
        (
            "256 options",
            with(6, choice(json!(vec![1.0 / 256.0; 256]), json!(0))),
            "invalid_parameter",
            Some("examples[6].probabilities"),
        ),
        (
            "nothing in common",
            fit_of(MODEL, &few),
            "invalid_parameter",
            Some("examples"),
        ),
    ] {
        let response = scene.post(CALIBRATIONS, &body).await;
        assert_error(what, &response, code, param);
    }
    let id = scene.fit(NOISY, &examples(30, 6)).await["id"].clone();
    let response = scene.post(DECISIONS, &decision(json!({"calibration": id}))).await;
    assert_error(
        "another model's",
        &response,
        "invalid_parameter",
        Some("options.calibration"),
    );
    let response = scene
        .post(DECISIONS, &decision(json!({"calibration": "mine"})))
        .await;
    assert_error("no id", &response, "not_found", Some("options.calibration"));
    let path = format!("{CALIBRATIONS}/{}", id.as_str().unwrap());
    let response = scene.post(&path, &json!({"default": "yes"})).await;
    assert_error("no flag", &response, "invalid_parameter", Some("default"));
    for (query, param) in [
        ("?limit=101", "limit"),
        ("?limit=0", "limit"),
        ("?after=cal_1", "after"),
    ] {
        let request = Request::get(&format!("{CALIBRATIONS}{query}")).key(&scene.key.secret);
        let response = scene.client().send(&request).await;
        assert_error(query, &response, "invalid_parameter", Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
