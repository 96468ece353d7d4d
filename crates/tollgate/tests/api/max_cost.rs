//! `x-max-cost`: no more is charged than a caller allows, whatever its request asks for and its upstream says.

mod formats;
mod streams;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, nanos};
use tollgate_testkit::upstream::{Answer, FakeUpstream, Reply, Usage};

use crate::money::holds::account_with;
use crate::scene::{
    BINARY, CHAT, PLAIN, PROVIDER, PROVIDER_KEY, Scene, assert_error, credits, flat_bound, hello, with,
};

/// Price of a token of every model here, in nano-credits.
pub const PRICE: i64 = 1_000;
/// Models whose providers speak a format each.
pub const MESSAGES: &str = "acme/messages";
pub const RESPONSES: &str = "acme/responses";
pub const CONTENT: &str = "acme/content";
pub const TEXTS: &str = "acme/texts";
/// One whose tokens can be counted, and one that makes vectors.
pub const COUNTED: &str = "acme/counted";
pub const VECTORS: &str = "acme/vectors";

/// A scene with a provider of every format.
pub async fn scene(storage: Storage, config: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let mut settings = config.to_owned();
    for (provider, preset, model) in [
        ("southwind", "anthropic", MESSAGES),
        ("eastwind", "openai-responses", RESPONSES),
        ("westwind", "gemini", CONTENT),
        ("upwind", "vllm", TEXTS),
    ] {
        settings += &format!(
            "[providers.{provider}]\npreset = \"{preset}\"\nbase_url = \"{}\"\napi_key_env = \"PROVIDER_KEY\"\n\
             [models.\"{model}\"]\ntargets = [\"{provider}/some-v1\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
             limits = {{ max_output_tokens = 4096 }}\ninput = [\"text\", \"image\"]\n",
            upstream.base_url()
        );
    }
    settings += &format!(
        "[models.\"{COUNTED}\"]\ntargets = [\"{PROVIDER}/counted\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
         tokenizer = \"o200k_base\"\nlimits = {{ max_output_tokens = 4096 }}\n\
         [models.\"{VECTORS}\"]\ntype = \"embedding\"\ntargets = [\"{PROVIDER}/vectors\"]\nprices = {{ input = \"1\" }}\n\
         tokenizer = \"o200k_base\"\nlimits = {{ dimensions = 8 }}\n"
    );
    let options = Scene::options(&upstream, storage, &settings);
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

/// A request whose caller allows it to cost so many nano-credits.
pub fn allowing(path: &str, key: &str, body: &Value, most: i64) -> Request {
    Request::json(path, body)
        .key(key)
        .header("x-max-cost", credits(most))
}

/// The answer to it, with the scene's key.
pub async fn send(scene: &Scene, path: &str, body: &Value, most: i64) -> Response {
    let request = allowing(path, &scene.key.secret, body, most);
    scene.client().send(&request).await
}

/// What the upstream was sent last.
pub fn last_sent(scene: &Scene) -> Value {
    scene.upstream.requests().last().unwrap().json().unwrap()
}

fn plain(members: Value) -> Value {
    with(hello(json!({"model": PLAIN})), members)
}

/// An answer that reports so much.
fn reporting(prompt: i64, completion: i64) -> Reply {
    let (prompt, completion) = (prompt.unsigned_abs(), completion.unsigned_abs());
    Reply::answer(Answer::words(3).usage(Usage::Fixed { prompt, completion }))
}

#[tokio::test]
async fn a_cap_is_made_as_small_as_it_must_be() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        let body = plain(json!({"max_tokens": 100}));
        let input = flat_bound(&body, PRICE, 0);
        let mut paid = 0;
        // Nano-credits for the output, and the cap that the upstream is sent.
        for (output, cap) in [
            (101 * PRICE, 100),
            (100 * PRICE, 100),
            (100 * PRICE - 1, 99),
            (50 * PRICE, 50),
            (17 * PRICE - 1, 16),
            (16 * PRICE, 16),
        ] {
            // All of it is made use of.
            scene.upstream.push(reporting(input / PRICE, cap));
            let response = send(&scene, CHAT, &body, input + output).await;
            assert_eq!(response.status, 200, "{output}: {}", response.text());
            assert_eq!(last_sent(&scene)["max_tokens"], cap, "{output}");
            paid += input + cap * PRICE;
            let told = nanos(&json!(response.header("x-tollgate-cost").unwrap()));
            assert_eq!(told, input + cap * PRICE);
            assert!(told <= input + output);
        }
        let before = scene.gateway.ledger_check().await;
        let asked = scene.upstream.request_count();
        for (what, body, most) in [
            ("one less", body.clone(), input + 16 * PRICE - 1),
            ("nothing", body.clone(), 0),
            (
                "two answers",
                with(body.clone(), json!({"n": 2})),
                flat_bound(&with(body.clone(), json!({"n": 2})), PRICE, 32) - 1,
            ),
        ] {
            let response = send(&scene, CHAT, &body, most).await;
            let error = assert_error(what, &response, "parameter_out_of_range", Some("x-max-cost"));
            let n = body["n"].as_i64().unwrap_or(1);
            let least = tollgate_types::Credits::from_nanos(flat_bound(&body, PRICE, 16 * n)).to_string();
            assert!(
                error.message.contains(&format!("Allow at least {least}, ")),
                "{}",
                error.message
            );
            // What it is told is enough.
            let enough = send(&scene, CHAT, &body, flat_bound(&body, PRICE, 16 * n)).await;
            assert_eq!(enough.status, 200, "{what}: {}", enough.text());
        }
        let after = scene.gateway.ledger_check().await;
        assert_eq!(scene.upstream.request_count(), asked + 3);
        assert_eq!(
            after.usage_rows,
            before.usage_rows + 3,
            "what is refused is not written"
        );
        let settled = scene.settled().await;
        assert!(crate::scene::GRANTED - settled.credits > paid);
        scene.finish().await;
    }
}

#[tokio::test]
async fn what_is_no_amount_is_refused_on_every_path() {
    let scene = scene(Storage::Sqlite, "").await;
    let body = plain(json!({}));
    for value in ["", "a", "-1", "1e3", "0.0000000001", "1,5", "9223372036.9"] {
        for path in [
            CHAT,
            "/v1/completions",
            "/v1/embeddings",
            "/v1/responses",
            "/v1/quote",
        ] {
            let request = Request::json(path, &body)
                .key(&scene.key.secret)
                .header("x-max-cost", value);
            let response = scene.client().send(&request).await;
            assert_error(value, &response, "invalid_parameter", Some("x-max-cost"));
        }
    }
    let twice = allowing(CHAT, &scene.key.secret, &body, 1).header("x-max-cost", "1");
    let response = scene.client().send(&twice).await;
    assert_error("twice", &response, "invalid_parameter", Some("x-max-cost"));
    // Who is not known is told that first.
    let nobody = Request::json(CHAT, &body).header("x-max-cost", "a");
    assert_error(
        "nobody",
        &scene.client().send(&nobody).await,
        "missing_api_key",
        None,
    );
    scene.nothing_happened().await;
    scene.finish().await;
}

/// An upstream that reports more than it was allowed: the caller pays what it allowed, the operator the rest.
#[tokio::test]
async fn a_report_of_more_is_not_charged() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        let body = plain(json!({"max_tokens": 100}));
        let most = flat_bound(&body, PRICE, 40);
        for stream in [false, true] {
            scene.upstream.push(reporting(most / PRICE, 3_000));
            let response = send(&scene, CHAT, &with(body.clone(), json!({"stream": stream})), most).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let row = scene.row(response.request_id()).await;
            assert!(nanos(&row["cost"]) <= most, "{row}");
        }
        let check = scene.finish().await;
        assert!(check.revenue <= 2 * most && check.overrun > 0, "{check:?}");
    }
}

#[tokio::test]
async fn text_is_counted_where_its_bytes_are_not_allowed() {
    let scene = scene(Storage::Sqlite, "").await;
    // Ten tokens each.
    let text = vec!["The quick brown fox jumps over the lazy dog."; 100].join(" ");
    let said = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 50});
    let by_bytes = flat_bound(&said(COUNTED), PRICE, 16);
    let bytes = i64::try_from(text.len()).unwrap();
    let by_tokens = by_bytes - PRICE * (bytes - (1_000 + 62 + 8));
    assert!(by_tokens * 3 < by_bytes);
    for (what, model, most, served) in [
        ("tokens", COUNTED, by_tokens, true),
        ("one less", COUNTED, by_tokens - 1, false),
        ("nobody knows its tokens", PLAIN, by_tokens, false),
    ] {
        let response = send(&scene, CHAT, &said(model), most).await;
        if served {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            assert_eq!(last_sent(&scene)["max_tokens"], 16, "{what}");
        } else {
            assert_error(what, &response, "parameter_out_of_range", Some("x-max-cost"));
        }
    }
    let body = json!({"model": VECTORS, "input": text});
    let by_tokens = (1_000 + 62 + 8 + 8) * PRICE;
    for (most, status) in [(by_tokens, 200), (by_tokens - 1, 422)] {
        let response = send(&scene, "/v1/embeddings", &body, most).await;
        assert_eq!(response.status, status, "{}", response.text());
    }
    scene.finish().await;
}

#[tokio::test]
async fn embeddings_are_paid_whole_or_not_made() {
    let scene = scene(Storage::Sqlite, "").await;
    let vectors = |texts: Value| json!({"model": VECTORS, "input": texts});
    let bound = (2 + 8 + 3 + 8) * PRICE;
    let made = send(&scene, "/v1/embeddings", &vectors(json!(["ab", "cde"])), bound).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let asked = scene.upstream.request_count();
    for (path, body) in [
        ("/v1/embeddings", vectors(json!(["ab", "cde"]))),
        (
            "/v1/models/acme/vectors:batchEmbedContents",
            json!({"requests": [
                {"model": "models/acme/vectors", "content": {"parts": [{"text": "ab"}]}},
                {"model": "models/acme/vectors", "content": {"parts": [{"text": "cde"}]}},
            ]}),
        ),
    ] {
        let refused = send(&scene, path, &body, bound - 1).await;
        let error = assert_error(path, &refused, "parameter_out_of_range", Some("x-max-cost"));
        assert!(error.message.contains("at least 0.000021,"), "{}", error.message);
    }
    assert_eq!(scene.upstream.request_count(), asked);
    scene.finish().await;
}

#[tokio::test]
async fn pictures_count_as_much_as_they_may_cost() {
    let scene = scene(Storage::Sqlite, "").await;
    let picture = json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}});
    let body =
        json!({"model": MESSAGES, "max_tokens": 60, "messages": [{"role": "user", "content": [picture]}]});
    let bound = flat_bound(&body, PRICE, 50_000 + 16);
    let refused = send(&scene, "/v1/messages", &body, bound - 1).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(refused.json()["error"]["param"], "x-max-cost");
    let served = send(&scene, "/v1/messages", &body, bound + 3 * PRICE).await;
    assert_eq!(served.status, 200, "{}", served.text());
    assert_eq!(last_sent(&scene)["max_tokens"], 19);
    scene.finish().await;
}

/// What an allowance covers costs as much as what credits pay.
#[tokio::test]
async fn an_allowance_is_bound_like_credits() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let plan = "[plans.week]\nprice = \"0\"\nallowance = \"1\"\n";
        let scene = scene(storage, plan).await;
        let (account, key) = account_with(&scene, 0).await;
        let create = ["subscriptions", "create", "--account", &account, "--plan", "week"];
        scene.gateway.command_line().run(&create).await;
        let body = plain(json!({"max_tokens": 100}));
        let most = flat_bound(&body, PRICE, 30);
        let refused = scene
            .client()
            .send(&allowing(CHAT, &key, &body, flat_bound(&body, PRICE, 16) - 1))
            .await;
        assert_error(
            "too little",
            &refused,
            "parameter_out_of_range",
            Some("x-max-cost"),
        );
        scene.upstream.push(reporting(1_000, 3_000));
        let served = scene.client().send(&allowing(CHAT, &key, &body, most)).await;
        assert_eq!(served.status, 200, "{}", served.text());
        assert_eq!(last_sent(&scene)["max_tokens"], 30);
        let row = scene.gateway.usage(&key, "").await["data"][0].clone();
        assert_eq!(row["coverage"], "fully", "{row}");
        assert_eq!(["cost", "included"].map(|name| nanos(&row[name])), [most, most]);
        // What is allowed is held against what there is, too.
        let (_, poor) = account_with(&scene, most - 1).await;
        let refused = scene.client().send(&allowing(CHAT, &poor, &body, most)).await;
        assert_error("cannot pay", &refused, "insufficient_credits", None);
        scene.finish().await;
    }
}

#[tokio::test]
async fn what_costs_nothing_is_allowed_by_nothing() {
    let scene = scene(Storage::Sqlite, "").await;
    let free = send(&scene, CHAT, &hello(json!({"model": crate::scene::FREE})), 0).await;
    assert_eq!(free.status, 200, "{}", free.text());
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let test_key = scene.gateway.command_line().run(&create).await["key"].clone();
    let body = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "Hi"}]});
    let tested = allowing(CHAT, test_key.as_str().unwrap(), &body, 0);
    let tested = scene.client().send(&tested).await;
    assert_eq!(tested.status, 200, "{}", tested.text());
    assert_error(
        "a live key",
        &send(&scene, CHAT, &body, 0).await,
        "parameter_out_of_range",
        Some("x-max-cost"),
    );
    scene.finish().await;
}

/// A refusal gives the idempotency key back; what was carried out is given again whatever the repetition allows.
#[tokio::test]
async fn requests_that_are_sent_again() {
    let scene = scene(Storage::Sqlite, "").await;
    let body = plain(json!({"max_tokens": 100}));
    let keyed = |most: i64| allowing(CHAT, &scene.key.secret, &body, most).header("idempotency-key", "k-1");
    let least = flat_bound(&body, PRICE, 16);
    let refused = scene.client().send(&keyed(least - 1)).await;
    assert_error("refused", &refused, "parameter_out_of_range", Some("x-max-cost"));
    let served = scene.client().send(&keyed(least)).await;
    assert_eq!(served.status, 200, "{}", served.text());
    for most in [least, 0] {
        let again = scene.client().send(&keyed(most)).await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.text(), served.text());
    }
    assert_eq!(scene.upstream.request_count(), 1);
    assert_eq!(scene.finish().await.usage_rows, 1);
}
