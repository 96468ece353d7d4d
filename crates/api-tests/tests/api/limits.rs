//! Requests and tokens per minute of an account, over all its keys.

use serde_json::json;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use crate::scene::{CHAT, MODEL, Scene, assert_error, hello};

fn number(response: &Response, name: &str) -> u64 {
    let value = response
        .header(name)
        .unwrap_or_else(|| panic!("{name} in {:?}", response.head));
    value.parse().unwrap()
}

/// Asserts a rate limit error with consistent `retry-after` headers.
fn assert_limited(what: &str, response: &Response, limit: u64) {
    let error = assert_error(what, response, "rate_limit_exceeded", None);
    assert!(
        error.message.contains(&limit.to_string()),
        "{what}: {}",
        error.message
    );
    let (seconds, millis) = (
        number(response, "retry-after"),
        number(response, "retry-after-ms"),
    );
    assert!(
        (1..=61).contains(&seconds) && millis.div_ceil(1_000) == seconds,
        "{what}: {seconds} s, {millis} ms"
    );
}

#[tokio::test]
async fn all_keys_of_an_account_share_its_request_limit() {
    let scene = Scene::start().await;
    let second = scene.gateway.key(&scene.account).await.secret;
    let other = scene.gateway.account().await;
    scene.gateway.grant(&other, "1").await;
    let other = scene.gateway.key(&other).await.secret;
    scene.gateway.set_limits(&scene.account, 4, 1_000_000).await;
    let keys = [&scene.key.secret, &second];
    for (sent, left) in [3, 2, 1, 0].into_iter().enumerate() {
        // Every POST counts, even a failed one.
        let body = if sent == 2 {
            hello(json!({"n": 0}))
        } else {
            hello(json!({"stream": sent == 1}))
        };
        let response = scene.client().post_json(CHAT, keys[sent % 2], &body).await;
        assert_eq!(
            response.status,
            if sent == 2 { 400 } else { 200 },
            "{}",
            response.text()
        );
        assert_eq!(number(&response, "x-ratelimit-limit-requests"), 4);
        assert_eq!(number(&response, "x-ratelimit-remaining-requests"), left);
        let reset = response.header("x-ratelimit-reset-requests").unwrap();
        assert!(
            reset.ends_with('s') && reset.starts_with(|c: char| c.is_ascii_digit()),
            "{reset}"
        );
    }
    for key in keys {
        let response = scene.client().post_json(CHAT, key, &hello(json!({}))).await;
        assert_limited("the fifth", &response, 4);
        assert_eq!(number(&response, "x-ratelimit-remaining-requests"), 0);
    }
    assert_eq!(
        scene
            .client()
            .post_json(CHAT, &other, &hello(json!({})))
            .await
            .status,
        200,
        "others are not touched"
    );
    assert_eq!(scene.upstream.request_count(), 4);
    assert_eq!(scene.rows().await.len(), 3, "reads have a separate limit");
    scene.finish().await;
}

#[tokio::test]
async fn reads_have_a_separate_limit() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 1, 1_000_000).await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert_limited("work", &scene.chat(&hello(json!({}))).await, 1);
    let mut connection = scene.client().connect().await;
    let paths = [
        "/v1/models",
        "/v1/account/usage?limit=1",
        "/v1/models/sim/chat",
        "/v1/models/none",
    ];
    for sent in 0..600_u64 {
        let request = Request::get(paths[sent as usize % paths.len()]).key(&scene.key.secret);
        let response = connection.respond(&request).await;
        assert!(
            matches!(response.status, 200 | 404),
            "{sent}: {}",
            response.text()
        );
        assert_eq!(number(&response, "x-ratelimit-limit-requests"), 600);
        assert!(number(&response, "x-ratelimit-remaining-requests") >= 599 - sent);
    }
    assert_limited(
        "reading",
        &scene.client().get("/v1/models", &scene.key.secret).await,
        600,
    );
    scene.gateway.set_limits(&scene.account, 10, 1_000_000).await;
    assert_eq!(
        scene.chat(&hello(json!({}))).await.status,
        200,
        "reads do not delay work"
    );
    scene.gateway.finish().await;
}

#[tokio::test]
async fn tokens_are_reserved_and_corrected() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 1_000, 5_000).await;
    let capped = hello(json!({"max_tokens": 3_000}));
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let (client, request) = (scene.client(), scene.request(&capped));
    let first = tokio::spawn(async move { client.send(&request).await });
    scene.upstream.wait_for_requests(1).await;
    // The first call has reserved its cap, so that a second such call does not fit.
    let refused = scene.chat(&capped).await;
    assert_limited("beside the first", &refused, 5_000);
    assert_eq!(number(&refused, "x-ratelimit-limit-tokens"), 5_000);
    let reserved = 3_000 + capped.to_string().len().div_ceil(4) as u64;
    assert_eq!(number(&refused, "x-ratelimit-remaining-tokens"), 5_000 - reserved);
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status, 200);
    assert_eq!(
        number(&first, "x-ratelimit-remaining-tokens"),
        5_000 - reserved,
        "as it was when it was admitted"
    );
    // The first call used five tokens, and the rest was released.
    let second = scene.chat(&capped).await;
    assert_eq!(second.status, 200, "{}", second.text());
    assert_eq!(
        number(&second, "x-ratelimit-remaining-tokens"),
        5_000 - 5 - reserved
    );
    // Without a cap, a tenth of the limit is reserved. Usage beyond that counts, too.
    let answer = Answer::words(3).usage(Usage::Fixed {
        prompt: 60,
        completion: 5_000,
    });
    scene.upstream.push(Reply::answer(answer));
    assert_eq!(
        scene.chat(&hello(json!({}))).await.status,
        200,
        "a call that runs is never stopped by the limit"
    );
    assert_limited(
        "after it",
        &scene.chat(&hello(json!({"max_tokens": 1}))).await,
        5_000,
    );
    assert_eq!(scene.upstream.request_count(), 3);
    scene.finish().await;
}

#[tokio::test]
async fn requests_larger_than_the_limit_get_422() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 1_000, 1_000).await;
    let capped = |cap: u64| hello(json!({"max_tokens": cap}));
    let input = capped(100).to_string().len().div_ceil(4) as u64;
    let short = json!([{"role": "user", "content": "Hi"}]);
    let long = json!([{"role": "user", "content": "x".repeat(5_000)}]);
    let generate =
        json!({"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 2_000}});
    for (path, body, advice) in [
        (CHAT.to_owned(), capped(2_000), "Lower the output"),
        (CHAT.to_owned(), capped(1_001 - input), "Lower the output"),
        (
            CHAT.to_owned(),
            hello(json!({"max_tokens": 400, "n": 3})),
            "Lower the output",
        ),
        (
            CHAT.to_owned(),
            hello(json!({"messages": long})),
            "Shorten the input",
        ),
        (
            "/v1/messages".to_owned(),
            json!({"model": MODEL, "max_tokens": 2_000, "messages": short}),
            "Lower the output",
        ),
        (
            "/v1/responses".to_owned(),
            json!({"model": MODEL, "max_output_tokens": 2_000, "input": "Hi"}),
            "Lower the output",
        ),
        (
            format!("/v1/models/{MODEL}:generateContent"),
            generate,
            "Lower the output",
        ),
        (
            "/v1/decisions".to_owned(),
            json!({"model": "sim/decide", "state": "long words ".repeat(1_000), "questions": {"a": {"type": "noul", "instructions": "?"}}}),
            "Shorten the input",
        ),
    ] {
        let response = scene.post(&path, &body).await;
        assert_eq!(response.status, 422, "{path}: {}", response.text());
        let text = response.text();
        for part in ["parameter_out_of_range", "1000 tokens per minute", advice] {
            assert!(text.contains(part), "{path}: {part} in {text}");
        }
        assert_eq!(response.header("retry-after"), None, "{path}");
        assert_eq!(response.header("x-should-retry"), Some("false"), "{path}");
    }
    assert_eq!(scene.upstream.request_count(), 0);
    // The largest request that fits and a request without a cap are served.
    let whole = scene.chat(&capped(1_000 - input)).await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    let open = scene.chat(&hello(json!({}))).await;
    assert_eq!(open.status, 200, "{}", open.text());
    scene.finish().await;
}

#[tokio::test]
async fn refused_requests_release_their_tokens() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    scene.gateway.set_limits(&poor, 1_000, 5_000).await;
    let key = scene.gateway.key(&poor).await.secret;
    for _ in 0..5 {
        let response = scene
            .client()
            .post_json(CHAT, &key, &hello(json!({"max_tokens": 3_000})))
            .await;
        assert_error("no credits", &response, "insufficient_credits", None);
    }
    for _ in 0..5 {
        let response = scene
            .client()
            .post_json(CHAT, &key, &hello(json!({"max_tokens": 3_000, "n": 0})))
            .await;
        assert_error("no request", &response, "invalid_parameter", Some("n"));
    }
    scene.gateway.grant(&poor, "1").await;
    let response = scene
        .client()
        .post_json(CHAT, &key, &hello(json!({"max_tokens": 3_000})))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    // A failed upstream call releases its tokens, too.
    scene.upstream.push(Reply::error(400, "x", "no"));
    let response = scene
        .client()
        .post_json(CHAT, &key, &hello(json!({"max_tokens": 3_000})))
        .await;
    assert_error("rejected", &response, "invalid_parameter", None);
    let response = scene
        .client()
        .post_json(CHAT, &key, &hello(json!({"max_tokens": 3_000})))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    scene.finish().await;
}

#[tokio::test]
async fn every_response_has_rate_limit_headers() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 100, 100_000).await;
    let requests = "x-ratelimit-remaining-requests";
    let tokens = "x-ratelimit-remaining-tokens";
    let post = |body: &str| Request::post(CHAT, body).key(&scene.key.secret);
    let cases = [
        ("an answer", scene.request(&hello(json!({}))), 200, true),
        (
            "a stream",
            scene.request(&hello(json!({"stream": true}))),
            200,
            true,
        ),
        ("no JSON", post("{"), 400, false),
        (
            "another type",
            post("{}").header("content-type", "text/plain"),
            415,
            false,
        ),
        (
            "no model",
            scene.request(&hello(json!({"model": "none"}))),
            404,
            false,
        ),
        (
            "models",
            Request::get("/v1/models").key(&scene.key.secret),
            200,
            false,
        ),
    ];
    for (what, request, status, has_tokens) in cases {
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, status, "{what}: {}", response.text());
        assert!(response.header(requests).is_some(), "{what}: {:?}", response.head);
        if has_tokens {
            assert!(number(&response, tokens) < 100_000, "{what}");
        }
    }
    let stranger = scene.client().send(&Request::get("/v1/models")).await;
    assert_eq!(stranger.header(requests), None, "no account, no limits");
    scene.finish().await;
}

#[tokio::test]
async fn changed_limits_apply_immediately() {
    let scene = Scene::start_with("[limits]\nrpm = 2\n").await;
    for status in [200, 200, 429] {
        assert_eq!(scene.chat(&hello(json!({}))).await.status, status);
    }
    scene.gateway.set_limits(&scene.account, 5, 1_000_000).await;
    for status in [200, 200, 200, 429] {
        assert_eq!(
            scene.chat(&hello(json!({}))).await.status,
            status,
            "two of five are used"
        );
    }
    scene.gateway.set_limits(&scene.account, 3, 1_000_000).await;
    assert_limited("lowered", &scene.chat(&hello(json!({}))).await, 3);
    scene.finish().await;
}

#[tokio::test]
async fn limits_can_be_reset_to_the_default() {
    let scene = Scene::start_with("[limits]\nrpm = 20\ntpm = 30000\n").await;
    let limits = async || {
        let response = scene.chat(&hello(json!({}))).await;
        let limit = |what: &str| number(&response, &format!("x-ratelimit-limit-{what}"));
        (limit("requests"), limit("tokens"))
    };
    let set = async |arguments: &[&str]| {
        let command = [&["accounts", "set-limits", &scene.account], arguments].concat();
        let account = scene.gateway.command_line().run(&command).await;
        (account["rpm"].clone(), account["tpm"].clone())
    };
    assert_eq!(limits().await, (20, 30_000));
    scene.gateway.set_limits(&scene.account, 7, 50_000).await;
    assert_eq!(limits().await, (7, 50_000));
    // The token limit stays unchanged.
    assert_eq!(set(&["--rpm", "default"]).await, (json!(null), json!(50_000)));
    assert_eq!(limits().await, (20, 50_000));
    let both = ["--rpm", "9", "--tpm", "default"];
    assert_eq!(set(&both).await, (json!(9), json!(null)));
    assert_eq!(limits().await, (9, 30_000));
    scene.finish().await;
}

#[tokio::test]
async fn the_limit_is_exact_under_concurrency() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 50, 100_000_000).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (client, request) = (scene.client(), scene.request(&hello(json!({"max_tokens": 5}))));
        calls.spawn(async move { client.send(&request).await.status });
    }
    let statuses = calls.join_all().await;
    let count = |status: u16| statuses.iter().filter(|other| **other == status).count();
    assert_eq!((count(200), count(429)), (50, 150));
    assert_eq!(scene.upstream.request_count(), 50);
    scene.finish().await;
}
