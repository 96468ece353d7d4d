//! Retries and failover to another candidate: before the first content, never after it.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::{Gateway, eventually};
use tollgate_testkit::upstream::{FakeUpstream, Reply, fault, refusing_base_url};

use super::{Received, assert_received};
use crate::scene::{BINARY, MODEL, PROVIDER_KEY, Scene, assert_error, hello, provider};

/// Starts a scene with two upstreams. The second is the fallback of the first.
async fn pair(targets: &str, settings: &str) -> (Scene, FakeUpstream) {
    let (first, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    first.set_api_key(PROVIDER_KEY);
    second.pass_over_lists();
    let (north, south) = (
        provider("northwind", &first.base_url()),
        provider("southwind", &second.base_url()),
    );
    let config = format!(
        "{north}{south}[models.\"{MODEL}\"]\ntargets = {targets}\n\
         prices = {{ input = \"1\", cache_read = \"0.1\", cache_write = \"1.5\", output = \"2\", reasoning = \"3\" }}\n\
         limits = {{ context_window = 200000, max_output_tokens = 4096 }}\n{settings}"
    );
    let mut options = Scene::options(&first, Storage::Sqlite, "");
    options.config = config;
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    (
        Scene {
            gateway,
            upstream: first,
            account,
            key,
        },
        second,
    )
}

const IN_ORDER: &str = r#"["northwind/large-v1", "southwind/large-v1"]"#;

fn reply(name: &str) -> Reply {
    fault(name).unwrap_or_else(|| panic!("no fault {name}")).reply()
}

/// Sends a call with this fault at the first upstream. Returns the response and the number of
/// requests to each upstream.
async fn ask(
    scene: &Scene,
    second: &FakeUpstream,
    name: &str,
    stream: bool,
) -> (tollgate_testkit::gateway::http::Response, u64, u64) {
    let before = (scene.upstream.request_count(), second.request_count());
    scene.upstream.push(reply(name));
    second.push(Reply::text("from the second"));
    let response = scene.chat(&hello(json!({"stream": stream}))).await;
    let asked = (
        scene.upstream.request_count() - before.0,
        second.request_count() - before.1,
    );
    if asked.1 == 0 {
        // The second reply was not used. Remove it, so that the next call does not receive it.
        let _ = second_reply_is_taken(second).await;
    }
    (response, asked.0, asked.1)
}

async fn second_reply_is_taken(second: &FakeUpstream) -> bool {
    let client = tollgate_testkit::gateway::http::Client::new(second.address());
    client
        .post_json("/v1/chat/completions", "k", &hello(json!({})))
        .await
        .status
        == 200
}

#[tokio::test]
async fn before_the_first_content_another_candidate_serves() {
    // The breaker never opens, so that every fault occurs at the first candidate.
    let breaker_off = "[retries]\nbreaker_consecutive = 1000\n";
    for names in [
        ["500", "502", "503", "529", "408", "404", "html-502", "empty-500"],
        [
            "reset",
            "close",
            "close-after-headers",
            "garbage",
            "empty",
            "html",
            "invalid-json",
            "error-body-200",
        ],
        [
            "empty-stream",
            "only-done",
            "role-then-error",
            "error-first",
            "bad-chunk-size",
            "many-headers",
            "redirect",
            "gzip",
        ],
    ] {
        let (scene, second) = pair(IN_ORDER, breaker_off).await;
        let mut served = 0;
        for name in names {
            // The breaker counts failure rates from twenty calls on and opens above one half.
            let stream = served % 2 == 1;
            let (response, first_asked, second_asked) = ask(&scene, &second, name, stream).await;
            let text = assert_received(name, &response, stream, Received::Answer);
            assert_eq!(
                (text.as_str(), first_asked, second_asked),
                ("from the second", 1, 1),
                "{name}"
            );
            served += 1;
        }
        let rows = scene.rows().await;
        assert_eq!(rows.len(), served, "one charge for each call");
        assert!(rows.iter().all(|row| row["outcome"] == "ok"), "{rows:?}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn faults_of_the_request_are_not_tried_elsewhere() {
    let settings = "[timeouts]\nheaders_ms = 300\nfirst_content_ms = 300\nidle_ms = 300\n[retries]\nbreaker_consecutive = 1000\n";
    let (scene, second) = pair(IN_ORDER, settings).await;
    for (name, received) in [
        ("400", Received::Refused("invalid_parameter")),
        ("context-length", Received::Refused("context_length_exceeded")),
        ("content-policy", Received::Refused("content_policy_violation")),
        // The call may still be running at the upstream, so a second call could be charged twice.
        ("hang", Received::Refused("upstream_timeout")),
        ("hang-after-headers", Received::Refused("upstream_timeout")),
    ] {
        for stream in [false, true] {
            let (response, first_asked, second_asked) = ask(&scene, &second, name, stream).await;
            assert_received(name, &response, stream, received);
            assert_eq!((first_asked, second_asked), (1, 0), "{name}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn after_the_first_content_no_other_candidate_continues() {
    let (scene, second) = pair(IN_ORDER, "").await;
    for name in ["error-event", "sse-cut-between-events", "reset-mid-body"] {
        let (response, first_asked, second_asked) = ask(&scene, &second, name, true).await;
        let text = assert_received(name, &response, true, Received::Broken("upstream_error"));
        assert!(text.starts_with("w1"), "{name}: {text}");
        assert_eq!((first_asked, second_asked), (1, 0), "{name}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_candidate_that_is_down_is_skipped_quickly() {
    let (scene, second) = pair(IN_ORDER, "").await;
    let mut config = crate::scene::settings(&scene.upstream);
    config = config.replace(&scene.upstream.base_url(), &refusing_base_url());
    drop(scene.gateway.finish().await);
    let south = provider("southwind", &second.base_url());
    config = config.replace(r#"["northwind/large-v1"]"#, IN_ORDER) + &south;
    let mut options = Scene::options(&scene.upstream, Storage::Sqlite, "");
    options.config = config;
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await.secret;
    gateway.grant(&account, "1").await;
    for number in 0..20 {
        let body = hello(json!({"stream": number % 2 == 0}));
        let response = gateway.client().post_json(crate::scene::CHAT, &key, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(second.request_count(), 20);
    gateway.finish().await;
}

#[tokio::test]
async fn the_only_candidate_is_tried_again_where_that_is_safe() {
    let scene = Scene::start().await;
    for (name, stream) in [("500", false), ("503", true), ("429", false)] {
        let before = scene.upstream.request_count();
        scene.upstream.push(reply(name));
        let response = scene.chat(&hello(json!({"stream": stream}))).await;
        assert_eq!(response.status, 200, "{name}: {}", response.text());
        assert_eq!(scene.upstream.request_count() - before, 2, "{name}");
    }
    // At most two more attempts, and only one if the error may be about this request.
    for (name, code, asked) in [("503", "model_unavailable", 3), ("500", "upstream_error", 2)] {
        let before = scene.upstream.request_count();
        (0..=asked).for_each(|_| scene.upstream.push(reply(name)));
        assert_error(name, &scene.chat(&hello(json!({}))).await, code, None);
        assert_eq!(
            (scene.upstream.request_count() - before, scene.upstream.queued()),
            (asked, 1),
            "{name}"
        );
        assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    }
    // The upstream requests a longer wait than callers accept, or the call may still be running.
    for (name, code) in [
        ("429-long", "model_unavailable"),
        ("close-after-headers", "upstream_error"),
        ("empty", "upstream_error"),
    ] {
        let before = scene.upstream.request_count();
        scene.upstream.push(reply(name));
        assert_error(name, &scene.chat(&hello(json!({}))).await, code, None);
        assert_eq!(scene.upstream.request_count() - before, 1, "{name}");
    }
    assert_eq!(scene.rows().await.len(), 10, "attempts are no calls");
    scene.finish().await;
}

#[tokio::test]
async fn weights_share_the_traffic() {
    let targets = r#"[
        { provider = "northwind", model = "large-v1", weight = 1 },
        { provider = "southwind", model = "large-v1", weight = 3 },
    ]"#;
    let (scene, second) = pair(targets, "").await;
    for _ in 0..200 {
        assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    }
    let (one, three) = (scene.upstream.request_count(), second.request_count());
    assert_eq!(one + three, 200);
    // Fifty are expected. The test fails by chance less than once in a billion runs.
    assert!((10..100).contains(&one), "{one} of 200");
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_candidate_is_skipped_and_recovers() {
    let (scene, second) = pair(
        IN_ORDER,
        "[retries]\nbreaker_consecutive = 3\nbreaker_open_ms = 300\n",
    )
    .await;
    scene.upstream.set_default(reply("502"));
    for _ in 0..3 {
        assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    }
    assert_eq!((scene.upstream.request_count(), second.request_count()), (3, 3));
    assert!(
        scene.gateway.log().contains("circuit breaker"),
        "the log reports it"
    );
    // The second upstream is now tried first. A probe detects that the first has recovered.
    scene.upstream.set_default(Reply::text("well again"));
    let well = |body: &Value| body["choices"][0]["message"]["content"] == "well again";
    eventually("the first candidate is tried again", async || {
        well(&scene.chat(&hello(json!({}))).await.json())
    })
    .await;
    for _ in 0..5 {
        assert!(
            well(&scene.chat(&hello(json!({}))).await.json()),
            "it is the first candidate"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_busy_or_locked_candidate_is_skipped_for_a_while() {
    for (name, code) in [("429", "429"), ("401", "401")] {
        let (scene, second) = pair(IN_ORDER, "").await;
        scene.upstream.push(reply(name));
        for _ in 0..4 {
            let response = scene.chat(&hello(json!({}))).await;
            assert_eq!(response.status, 200, "{code}: {}", response.text());
        }
        assert_eq!(
            (scene.upstream.request_count(), second.request_count()),
            (1, 4),
            "{code}"
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_closed_idle_connection_fails_no_call() {
    // Each thread has a separate connection pool, so the test uses one thread.
    let scene = Scene::start_with("[server]\nworkers = 1\n").await;
    let connection = || scene.upstream.requests().last().map(|request| request.connection);
    // A connection is not reused after a server error.
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    let first = connection();
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert_eq!(connection(), first, "connections are used again");
    scene.upstream.push(reply("503"));
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert_ne!(connection(), first);
    for name in ["reset", "close"] {
        for stream in [false, true] {
            // The upstream closes a reused connection, so the call is repeated on a new one.
            assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
            let (before, used) = (scene.upstream.request_count(), connection());
            scene.upstream.push(reply(name));
            let response = scene.chat(&hello(json!({"stream": stream}))).await;
            assert_received(name, &response, stream, Received::Answer);
            assert_eq!(scene.upstream.request_count() - before, 2, "{name}");
            assert_ne!(connection(), used);
            // On a new connection the upstream may have received the call, so it is not repeated.
            (0..2).for_each(|_| scene.upstream.push(reply(name)));
            let response = scene.chat(&hello(json!({"stream": stream}))).await;
            assert_received(name, &response, stream, Received::Refused("upstream_error"));
            assert_eq!(scene.upstream.request_count() - before, 4, "{name}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn errors_of_one_kind_of_request_do_not_divert_others() {
    let (scene, second) = pair(IN_ORDER, "").await;
    scene.upstream.set_judge(|request| {
        let has_image = request.body.windows(9).any(|bytes| bytes == b"image_url");
        has_image.then(|| reply("500"))
    });
    let text = hello(json!({}));
    let image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg==";
    let content = json!([{"type": "image_url", "image_url": {"url": image}}]);
    let image = hello(json!({"messages": [{"role": "user", "content": content}]}));
    for (body, calls, asked) in [(&text, 3, (3, 0)), (&image, 10, (10, 10)), (&text, 10, (10, 0))] {
        let before = (scene.upstream.request_count(), second.request_count());
        for _ in 0..calls {
            let response = scene.chat(body).await;
            assert_eq!(response.status, 200, "{}", response.text());
        }
        let found = (
            scene.upstream.request_count() - before.0,
            second.request_count() - before.1,
        );
        assert_eq!(found, asked);
    }
    scene.finish().await;
}
