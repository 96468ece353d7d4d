//! `POST /v1/quote`: the hold of a request, without executing it.

mod media;
mod ratio;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, nanos};
use tollgate_testkit::upstream::{Answer, Gate, Reply};

use crate::max_cost::{CONTENT, COUNTED, MESSAGES, PRICE, RESPONSES, TEXTS, VECTORS, scene};
use crate::money::holds::account_with;
use crate::scene::{
    CHAT, MODEL, PLAIN, Scene, assert_error, credits, flat_bound, hello, shortest_credits, with,
};

const QUOTE: &str = "/v1/quote";

async fn ask(scene: &Scene, key: &str, path: &str, body: &Value, limit: Option<i64>) -> Response {
    let quote = json!({"endpoint": path, "request": body});
    let request = Request::json(QUOTE, &quote).key(key);
    let request = match limit {
        Some(limit) => request.header("x-max-cost", credits(limit)),
        None => request,
    };
    scene.client().send(&request).await
}

/// Returns the quote for a request with the scene's key.
async fn quoted(scene: &Scene, path: &str, body: &Value) -> Value {
    let response = ask(scene, &scene.key.secret, path, body, None).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.json()
}

/// Returns a request for every endpoint that can be quoted.
fn requests() -> Vec<(String, Value)> {
    let turns = json!([{"role": "user", "content": "Hi there"}]);
    let chat = |model: &str, members: Value| with(json!({"model": model, "messages": turns}), members);
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hi there"}]}]});
    let image = json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    ]}]);
    let object = json!({"response_format": {"type": "json_object"}});
    let vectors = json!({"content": {"parts": [{"text": "Hi"}]}});
    let requests = [
        (CHAT, chat(PLAIN, json!({}))),
        (CHAT, chat(PLAIN, json!({"max_tokens": 70, "n": 3}))),
        (
            CHAT,
            chat(MODEL, json!({"max_completion_tokens": 70, "stream": true})),
        ),
        (CHAT, chat(MESSAGES, json!({"max_tokens": 70}))),
        (CHAT, chat(COUNTED, json!({}))),
        (CHAT, chat(PLAIN, with(object, json!({"max_tokens": 70})))),
        (
            "/v1/completions",
            json!({"model": TEXTS, "prompt": ["Hi", "you"], "n": 2, "max_tokens": 40}),
        ),
        (
            "/v1/completions",
            json!({"model": TEXTS, "prompt": [1, 2, 3], "stream": true, "max_tokens": 40}),
        ),
        ("/v1/messages", chat(MESSAGES, json!({"max_tokens": 70}))),
        (
            "/v1/messages",
            json!({"model": MESSAGES, "max_tokens": 70, "messages": image}),
        ),
        ("/v1/messages", chat(PLAIN, json!({"max_tokens": 70}))),
        (
            "/v1/responses",
            json!({"model": RESPONSES, "input": "Hi", "store": false}),
        ),
        (
            "/v1/responses",
            json!({"model": PLAIN, "input": "Hi", "max_output_tokens": 70}),
        ),
        ("/v1/models/acme/content:generateContent", contents.clone()),
        ("/v1/models/acme/content:streamGenerateContent", contents.clone()),
        ("/v1beta/models/acme/plain:generateContent", contents),
        (
            "/v1/embeddings",
            json!({"model": VECTORS, "input": ["Hi", "there"]}),
        ),
        ("/v1/models/acme/vectors:embedContent", vectors.clone()),
        (
            "/v1/models/acme/vectors:batchEmbedContents",
            json!({"requests": [with(vectors, json!({"model": "models/acme/vectors"}))]}),
        ),
    ];
    requests.map(|(path, body)| (path.to_owned(), body)).into()
}

/// Returns the hold of a request while its upstream is silent.
async fn held(scene: &Scene, key: &str, path: &str, body: &Value, limit: Option<i64>) -> i64 {
    let gate = Gate::new();
    scene
        .upstream
        .push(Reply::answer(Answer::words(2)).hold_head(&gate));
    let asked = scene.upstream.request_count();
    let request = Request::json(path, body).key(key);
    let request = match limit {
        Some(limit) => request.header("x-max-cost", credits(limit)),
        None => request,
    };
    let client = scene.client();
    let call = tokio::spawn(async move { client.send(&request).await });
    scene.upstream.wait_for_requests(asked + 1).await;
    let usage = scene.gateway.usage(key, "?limit=1").await;
    gate.open();
    call.await.unwrap();
    nanos(&usage["balance"]["held"])
}

#[tokio::test]
async fn a_quote_equals_the_hold() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        for (path, body) in requests() {
            let what = format!("{path} {body}");
            let quote = quoted(&scene, &path, &body).await;
            let limit = nanos(&quote["most"]);
            assert!(limit > 0, "{what}: {quote}");
            let items = quote["items"].as_array().unwrap();
            let sum: i64 = items.iter().map(|item| nanos(&item["cost"])).sum();
            assert_eq!(sum, limit, "{what}: {quote}");
            assert_eq!(
                (&quote["object"], &quote["endpoint"], &quote["sufficient"]),
                (&json!("quote"), &json!(path), &json!(true)),
                "{quote}"
            );
            assert_eq!(nanos(&quote["credits"]), limit, "{quote}");
            assert_eq!(quote["included"], "0", "{quote}");
            let tokens = quote["input_tokens"].as_i64().unwrap();
            assert!(
                tokens > 0 && tokens <= items[0]["tokens"].as_i64().unwrap(),
                "{quote}"
            );
            let asked = scene.upstream.request_count();
            assert_eq!(
                held(&scene, &scene.key.secret, &path, &body, None).await,
                limit,
                "{what}"
            );
            assert_eq!(scene.upstream.request_count(), asked + 1);
            // With a cost limit, the quote and the hold are at most the limit.
            let is_output = items[1]["tokens"].as_i64().unwrap() > 0;
            if is_output {
                let allowed = limit - 10 * PRICE;
                let bound = ask(&scene, &scene.key.secret, &path, &body, Some(allowed)).await;
                assert_eq!(bound.status, 200, "{what}: {}", bound.text());
                let bound = bound.json();
                let limit = nanos(&bound["most"]);
                assert!(limit <= allowed, "{what}: {bound}");
                assert!(
                    bound["output_cap"].as_i64() < quote["output_cap"].as_i64(),
                    "{what}: {bound}"
                );
                let held = held(&scene, &scene.key.secret, &path, &body, Some(allowed)).await;
                assert_eq!(held, limit, "{what}");
            }
            let refused = ask(&scene, &scene.key.secret, &path, &body, Some(1)).await;
            assert_error(&what, &refused, "parameter_out_of_range", Some("x-max-cost"));
        }
        scene.settled().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_quote_lists_its_items() {
    let scene = scene(Storage::Sqlite, "").await;
    let body = hello(json!({"max_tokens": 10, "n": 2}));
    let quote = quoted(&scene, CHAT, &body).await;
    let input = flat_bound(&body, 1, 0);
    // The most expensive classes of the model: cache writes and reasoning.
    let expected = json!([
        {"class": "input", "tokens": input, "quantity": input, "price": "1.5", "cost": shortest_credits(input * 1_500)},
        {"class": "output", "tokens": 20, "quantity": 20, "price": "3", "cost": "0.00006"},
    ]);
    assert_eq!(quote["items"], expected);
    assert_eq!((&quote["output_cap"], &quote["answers"]), (&json!(10), &json!(2)));
    assert_eq!(
        (&quote["model"], &quote["counting"]),
        (&json!(MODEL), &json!("upper_bound"))
    );
    let model = scene
        .client()
        .get(&format!("/v1/models/{MODEL}"), &scene.key.secret)
        .await;
    assert_eq!(model.status, 200);
    let served = scene.chat(&body).await;
    let row = scene.row(served.request_id()).await;
    assert_eq!(quote["price_version"], row["price_version"], "{row}");
    let simulated = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "Say hello."}]});
    let quote = quoted(&scene, CHAT, &simulated).await;
    assert_eq!(quote["counting"], "exact", "{quote}");
    assert_eq!(quote["most"], "0.0262224", "the example of docs/money.md");
    scene.finish().await;
}

#[tokio::test]
async fn a_quote_names_the_payer() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let config = format!(
            "[plans.week]\nprice = \"0\"\nallowance = \"{}\"\nmodels = [\"*/plain\"]\n",
            credits(30 * PRICE)
        );
        let scene = scene(storage, &config).await;
        let body = hello(json!({"model": PLAIN, "max_tokens": 100}));
        let limit = flat_bound(&body, PRICE, 100);
        let (account, key) = account_with(&scene, limit - 30 * PRICE - 1).await;
        let create = ["subscriptions", "create", "--account", &account, "--plan", "week"];
        scene.gateway.command_line().run(&create).await;
        let before = scene.gateway.ledger_check().await;
        let get = async |body: &Value| {
            let response = ask(&scene, &key, CHAT, body, None).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let quote = response.json();
            let amounts = ["most", "included", "credits"].map(|name| nanos(&quote[name]));
            (amounts, quote["sufficient"].as_bool().unwrap())
        };
        assert_eq!(get(&body).await, ([limit, 30 * PRICE, limit - 30 * PRICE], false));
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
        scene.gateway.grant(&account, &credits(1)).await;
        assert_eq!(get(&body).await, ([limit, 30 * PRICE, limit - 30 * PRICE], true));
        assert_eq!(held(&scene, &key, CHAT, &body, None).await, limit);
        let uncovered = hello(json!({"model": MODEL, "max_tokens": 1}));
        assert_eq!(get(&uncovered).await.0[1], 0, "the plan does not cover it");
        // Without a cap the hold uses the whole balance.
        let (_, poor) = account_with(&scene, flat_bound(&hello(json!({"model": PLAIN})), PRICE, 2_000)).await;
        let body = hello(json!({"model": PLAIN}));
        let quote = ask(&scene, &poor, CHAT, &body, None).await.json();
        assert_eq!(
            (&quote["output_cap"], &quote["sufficient"]),
            (&json!(2_000), &json!(true))
        );
        assert_eq!(
            held(&scene, &poor, CHAT, &body, None).await,
            nanos(&quote["most"])
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn text_is_counted_as_for_the_hold() {
    let scene = scene(Storage::Sqlite, "").await;
    let text = vec!["The quick brown fox jumps over the lazy dog."; 100].join(" ");
    let body = json!({"model": COUNTED, "messages": [{"role": "user", "content": text}], "max_tokens": 50});
    let (_, key) = account_with(&scene, flat_bound(&body, PRICE, 50) / 2).await;
    let quote = ask(&scene, &key, CHAT, &body, None).await.json();
    let limit = nanos(&quote["most"]);
    assert!(limit * 3 < flat_bound(&body, PRICE, 50), "{quote}");
    let tokens = quote["input_tokens"].as_i64().unwrap();
    assert!((1_000..1_300).contains(&tokens), "{quote}");
    assert_eq!(held(&scene, &key, CHAT, &body, None).await, limit);
    scene.finish().await;
}

/// A quote fails like its request, and the parameter is below `request`.
#[tokio::test]
async fn a_quote_fails_like_its_request() {
    let scene = scene(Storage::Sqlite, "").await;
    let turns = json!([{"role": "user", "content": "Hi"}]);
    let content = format!("/v1/models/{CONTENT}:generateContent");
    for (path, request, code, param) in [
        (
            CHAT,
            json!({"model": PLAIN}),
            "missing_required_parameter",
            Some("request.messages"),
        ),
        (
            CHAT,
            json!({"messages": turns}),
            "missing_required_parameter",
            Some("request.model"),
        ),
        (
            CHAT,
            json!({"model": "no/such", "messages": turns}),
            "model_not_found",
            Some("request.model"),
        ),
        (
            CHAT,
            json!({"model": PLAIN, "messages": [{"role": "nobody", "content": "x"}]}),
            "invalid_parameter",
            Some("request.messages[0].role"),
        ),
        (
            CHAT,
            json!({"model": PLAIN, "messages": turns, "max_tokens": 5_000}),
            "parameter_out_of_range",
            Some("request.max_tokens"),
        ),
        (
            "/v1/messages",
            json!({"model": MESSAGES, "messages": turns}),
            "missing_required_parameter",
            Some("request.max_tokens"),
        ),
        (
            "/v1/responses",
            json!({"model": RESPONSES, "input": "x", "colour": 1}),
            "unknown_parameter",
            Some("request.colour"),
        ),
        (
            "/v1/embeddings",
            json!({"model": PLAIN, "input": "x"}),
            "unsupported_endpoint",
            Some("request.model"),
        ),
        (
            &content,
            json!({"contents": []}),
            "invalid_parameter",
            Some("request.contents"),
        ),
        (
            "/v1/models/no/such:generateContent",
            json!({"contents": [{"parts": [{"text": "x"}]}]}),
            "model_not_found",
            Some("endpoint"),
        ),
        ("/v1/nothing", json!({}), "invalid_parameter", Some("endpoint")),
    ] {
        let response = ask(&scene, &scene.key.secret, path, &request, None).await;
        let what = format!("{path} {request}");
        let error = assert_error(&what, &response, code, param);
        if let Some(param) = param.filter(|param| param.starts_with("request.") && code != "model_not_found")
        {
            let named = error.message.contains(&format!("'{param}'")) || code == "unsupported_endpoint";
            assert!(named, "{what}: {}", error.message);
        }
    }
    for (body, code, param) in [
        (json!({}), "missing_required_parameter", "endpoint"),
        (json!({"endpoint": CHAT}), "missing_required_parameter", "request"),
        (
            json!({"endpoint": CHAT, "request": 7}),
            "invalid_parameter",
            "request",
        ),
        (
            json!({"endpoint": CHAT, "request": {}, "x": 1}),
            "unknown_parameter",
            "x",
        ),
    ] {
        let response = scene.client().post_json(QUOTE, &scene.key.secret, &body).await;
        assert_error(&body.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

/// A quote counts towards the limit of reads.
#[tokio::test]
async fn quotes_are_counted_like_reads() {
    let scene = scene(Storage::Sqlite, "").await;
    scene.gateway.set_limits(&scene.account, 2, 1_000_000).await;
    let body = hello(json!({"model": PLAIN, "max_tokens": 5}));
    for _ in 0..5 {
        quoted(&scene, CHAT, &body).await;
    }
    assert_eq!(scene.chat(&body).await.status, 200);
    scene.finish().await;
}

/// The input of decisions is counted before the call, so the quote equals the charge.
#[tokio::test]
async fn a_quote_of_decisions_equals_their_cost() {
    let scene = scene(Storage::Sqlite, "").await;
    let image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
    let question =
        json!({"type": "choice", "instructions": "Who answers?", "criteria": {"a": "One", "b": null}});
    for (path, body) in [
        (
            "/v1/decisions",
            json!({"model": "sim/decide", "state": "I was charged twice.", "questions": {"q": question}}),
        ),
        (
            "/v1/decisions",
            json!({"model": "sim/decide-logprobs", "input": "Twice.", "questions": [question]}),
        ),
        (
            "/v1/systemone",
            json!({"model": "sim/decide", "state": [image, "Twice."], "questions": {"q": question}}),
        ),
    ] {
        let asked = quoted(&scene, path, &body).await;
        let made = scene.post(path, &body).await;
        assert_eq!(made.status, 200, "{}", made.text());
        let made = made.json();
        assert_eq!(asked["most"], made["usage"]["cost"], "{asked} {made}");
        assert_eq!(
            asked["input_tokens"], made["usage"]["input_tokens"],
            "{asked} {made}"
        );
        assert_eq!(
            (&asked["counting"], &asked["output_cap"]),
            (&json!("exact"), &json!(0)),
            "{asked}"
        );
    }
    let wrong = json!({"model": "sim/decide", "state": "x", "questions": {"q": {"type": "guess", "instructions": "x"}}});
    let response = ask(&scene, &scene.key.secret, "/v1/decisions", &wrong, None).await;
    assert_error(
        "a type",
        &response,
        "invalid_parameter",
        Some("request.questions.q.type"),
    );
    let unknown = json!({"model": "sim/decide", "state": "x", "questions": {"q": question},
        "options": {"calibration": "cal_00000000000000000000000000000001"}});
    let response = ask(&scene, &scene.key.secret, "/v1/decisions", &unknown, None).await;
    assert_error(
        "a calibration",
        &response,
        "not_found",
        Some("request.options.calibration"),
    );
    scene.finish().await;
}
