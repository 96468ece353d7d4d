//! `x-max-cost`: a request is charged at most its caller's limit, regardless of its content and of
//! the usage that the upstream reports.

mod formats;
mod streams;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, nanos};
use tollgate_testkit::upstream::{Answer, FakeUpstream, Reply, Usage};

use crate::money::holds::account_with;
use crate::scene::{
    BINARY, CHAT, PLAIN, PROVIDER, PROVIDER_KEY, Scene, assert_error, credits, flat_bound, hello,
    shortest_credits, with,
};

/// Price of one token of each model here, in nano-credits.
pub const PRICE: i64 = 1_000;
/// Models of providers that support one format each.
pub const MESSAGES: &str = "acme/messages";
pub const RESPONSES: &str = "acme/responses";
pub const CONTENT: &str = "acme/content";
pub const TEXTS: &str = "acme/texts";
/// A chat model with a known tokenizer, and an embedding model.
pub const COUNTED: &str = "acme/counted";
pub const VECTORS: &str = "acme/vectors";

/// Starts a scene with a provider of every format.
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

/// Builds a request with this `x-max-cost`, in nano-credits.
pub fn allowing(path: &str, key: &str, body: &Value, limit: i64) -> Request {
    Request::json(path, body)
        .key(key)
        .header("x-max-cost", credits(limit))
}

/// Sends a request with the scene's key and this `x-max-cost`, in nano-credits.
pub async fn send(scene: &Scene, path: &str, body: &Value, limit: i64) -> Response {
    let request = allowing(path, &scene.key.secret, body, limit);
    scene.client().send(&request).await
}

/// Returns the body that the upstream received last.
pub fn last_sent(scene: &Scene) -> Value {
    scene.upstream.requests().last().unwrap().json().unwrap()
}

fn plain(members: Value) -> Value {
    with(hello(json!({"model": PLAIN})), members)
}

/// Builds a reply whose usage report has these token counts.
fn reporting(prompt: i64, completion: i64) -> Reply {
    let (prompt, completion) = (prompt.unsigned_abs(), completion.unsigned_abs());
    Reply::answer(Answer::words(3).usage(Usage::Fixed { prompt, completion }))
}

#[tokio::test]
async fn the_output_cap_is_lowered_to_fit_the_limit() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        let body = plain(json!({"max_tokens": 100}));
        let input = flat_bound(&body, PRICE, 0);
        let mut paid = 0;
        // Nano-credits for the output, and the cap that the upstream receives.
        for (output, cap) in [
            (101 * PRICE, 100),
            (100 * PRICE, 100),
            (100 * PRICE - 1, 99),
            (50 * PRICE, 50),
            (17 * PRICE - 1, 16),
            (16 * PRICE, 16),
        ] {
            // The upstream uses the whole cap.
            scene.upstream.push(reporting(input / PRICE, cap));
            let response = send(&scene, CHAT, &body, input + output).await;
            assert_eq!(response.status, 200, "{output}: {}", response.text());
            assert_eq!(last_sent(&scene)["max_tokens"], cap, "{output}");
            paid += input + cap * PRICE;
            let charged = nanos(&json!(response.header("x-tollgate-cost").unwrap()));
            assert_eq!(charged, input + cap * PRICE);
            assert!(charged <= input + output);
        }
        let before = scene.gateway.ledger_check().await;
        let asked = scene.upstream.request_count();
        for (what, body, limit) in [
            ("one less", body.clone(), input + 16 * PRICE - 1),
            ("nothing", body.clone(), 0),
            (
                "two answers",
                with(body.clone(), json!({"n": 2})),
                flat_bound(&with(body.clone(), json!({"n": 2})), PRICE, 32) - 1,
            ),
        ] {
            let response = send(&scene, CHAT, &body, limit).await;
            let error = assert_error(what, &response, "parameter_out_of_range", Some("x-max-cost"));
            let n = body["n"].as_i64().unwrap_or(1);
            let min_limit = shortest_credits(flat_bound(&body, PRICE, 16 * n));
            assert!(
                error
                    .message
                    .contains(&format!("Raise 'x-max-cost' to at least {min_limit}, ")),
                "{}",
                error.message
            );
            // The minimum that the error names is enough.
            let enough = send(&scene, CHAT, &body, flat_bound(&body, PRICE, 16 * n)).await;
            assert_eq!(enough.status, 200, "{what}: {}", enough.text());
        }
        let after = scene.gateway.ledger_check().await;
        assert_eq!(scene.upstream.request_count(), asked + 3);
        assert_eq!(
            after.usage_rows,
            before.usage_rows + 3,
            "refused requests have no usage row"
        );
        let settled = scene.settled().await;
        assert!(crate::scene::GRANTED - settled.credits > paid);
        scene.finish().await;
    }
}

#[tokio::test]
async fn invalid_amounts_are_refused_on_every_path() {
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
    // The key is checked before the header.
    let anonymous = Request::json(CHAT, &body).header("x-max-cost", "a");
    assert_error(
        "anonymous",
        &scene.client().send(&anonymous).await,
        "missing_api_key",
        None,
    );
    scene.nothing_happened().await;
    scene.finish().await;
}

/// The upstream reports more usage than allowed: the caller pays up to its limit, and the operator
/// bears the rest.
#[tokio::test]
async fn usage_beyond_the_limit_is_not_charged() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        let body = plain(json!({"max_tokens": 100}));
        let limit = flat_bound(&body, PRICE, 40);
        for stream in [false, true] {
            scene.upstream.push(reporting(limit / PRICE, 3_000));
            let response = send(
                &scene,
                CHAT,
                &with(body.clone(), json!({"stream": stream})),
                limit,
            )
            .await;
            assert_eq!(response.status, 200, "{}", response.text());
            let row = scene.row(response.request_id()).await;
            assert!(nanos(&row["cost"]) <= limit, "{row}");
        }
        let check = scene.finish().await;
        assert!(check.revenue <= 2 * limit && check.overrun > 0, "{check:?}");
    }
}

#[tokio::test]
async fn text_is_counted_if_its_bytes_exceed_the_limit() {
    let scene = scene(Storage::Sqlite, "").await;
    // Each sentence has ten tokens.
    let text = vec!["The quick brown fox jumps over the lazy dog."; 100].join(" ");
    let said = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 50});
    let by_bytes = flat_bound(&said(COUNTED), PRICE, 16);
    let bytes = i64::try_from(text.len()).unwrap();
    let by_tokens = by_bytes - PRICE * (bytes - (1_000 + 62 + 8));
    assert!(by_tokens * 3 < by_bytes);
    for (what, model, limit, served) in [
        ("tokens", COUNTED, by_tokens, true),
        ("one less", COUNTED, by_tokens - 1, false),
        ("unknown tokenizer", PLAIN, by_tokens, false),
    ] {
        let response = send(&scene, CHAT, &said(model), limit).await;
        if served {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            assert_eq!(last_sent(&scene)["max_tokens"], 16, "{what}");
        } else {
            assert_error(what, &response, "parameter_out_of_range", Some("x-max-cost"));
        }
    }
    let body = json!({"model": VECTORS, "input": text});
    let by_tokens = (1_000 + 62 + 8 + 8) * PRICE;
    for (limit, status) in [(by_tokens, 200), (by_tokens - 1, 422)] {
        let response = send(&scene, "/v1/embeddings", &body, limit).await;
        assert_eq!(response.status, status, "{}", response.text());
    }
    scene.finish().await;
}

#[tokio::test]
async fn embeddings_are_paid_whole_or_refused() {
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
async fn images_count_with_their_highest_cost() {
    let scene = scene(Storage::Sqlite, "").await;
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}});
    let body =
        json!({"model": MESSAGES, "max_tokens": 60, "messages": [{"role": "user", "content": [image]}]});
    let bound = flat_bound(&body, PRICE, 50_000 + 16);
    let refused = send(&scene, "/v1/messages", &body, bound - 1).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(refused.json()["error"]["param"], "x-max-cost");
    let served = send(&scene, "/v1/messages", &body, bound + 3 * PRICE).await;
    assert_eq!(served.status, 200, "{}", served.text());
    assert_eq!(last_sent(&scene)["max_tokens"], 19);
    scene.finish().await;
}

/// Usage that an allowance covers counts towards the limit like usage paid with credits.
#[tokio::test]
async fn an_allowance_is_limited_like_credits() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let plan = "[plans.week]\nprice = \"0\"\nallowance = \"1\"\n";
        let scene = scene(storage, plan).await;
        let (account, key) = account_with(&scene, 0).await;
        let create = ["subscriptions", "create", "--account", &account, "--plan", "week"];
        scene.gateway.command_line().run(&create).await;
        let body = plain(json!({"max_tokens": 100}));
        let limit = flat_bound(&body, PRICE, 30);
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
        let served = scene.client().send(&allowing(CHAT, &key, &body, limit)).await;
        assert_eq!(served.status, 200, "{}", served.text());
        assert_eq!(last_sent(&scene)["max_tokens"], 30);
        let row = scene.gateway.usage(&key, "").await["data"][0].clone();
        assert_eq!(row["coverage"], "fully", "{row}");
        assert_eq!(["cost", "included"].map(|name| nanos(&row[name])), [limit, limit]);
        // The balance must cover the limit, which is the hold.
        let (_, poor) = account_with(&scene, limit - 1).await;
        let refused = scene.client().send(&allowing(CHAT, &poor, &body, limit)).await;
        assert_error("cannot pay", &refused, "insufficient_credits", None);
        scene.finish().await;
    }
}

#[tokio::test]
async fn free_calls_fit_a_limit_of_zero() {
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

/// A refusal releases the idempotency key. A repeated request receives the stored response;
/// its limit is ignored.
#[tokio::test]
async fn repeated_requests_ignore_the_limit() {
    let scene = scene(Storage::Sqlite, "").await;
    let body = plain(json!({"max_tokens": 100}));
    let keyed = |limit: i64| allowing(CHAT, &scene.key.secret, &body, limit).header("idempotency-key", "k-1");
    let min_limit = flat_bound(&body, PRICE, 16);
    let refused = scene.client().send(&keyed(min_limit - 1)).await;
    assert_error("refused", &refused, "parameter_out_of_range", Some("x-max-cost"));
    let served = scene.client().send(&keyed(min_limit)).await;
    assert_eq!(served.status, 200, "{}", served.text());
    for limit in [min_limit, 0] {
        let again = scene.client().send(&keyed(limit)).await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.text(), served.text());
    }
    assert_eq!(scene.upstream.request_count(), 1);
    assert_eq!(scene.finish().await.usage_rows, 1);
}
