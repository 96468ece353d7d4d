//! Another attempt, another candidate: before the first content, never after it.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::{Gateway, eventually};
use tollgate_testkit::upstream::{FakeUpstream, Reply, fault, refusing_base_url};

use super::{Told, assert_told};
use crate::scene::{BINARY, MODEL, PROVIDER_KEY, Scene, assert_error, hello, provider};

/// A scene with a second upstream behind the first.
async fn pair(targets: &str, settings: &str) -> (Scene, FakeUpstream) {
    let (first, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    first.set_api_key(PROVIDER_KEY);
    let (north, south) = (
        provider("northwind", &first.base_url()),
        provider("southwind", &second.base_url()),
    );
    let config = format!(
        "{north}{south}[models.\"{MODEL}\"]\ntargets = {targets}\n\
         prices = {{ input = \"1\", cache_read = \"0.1\", cache_write = \"1.5\", output = \"2\", reasoning = \"3\" }}\n{settings}"
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

/// Asks with this fault at the first upstream; how often the two were asked.
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
        // It was not taken: the next call must not find it.
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
    // Never set aside, so that every fault is played at the first.
    let patient = "[retries]\nbreaker_consecutive = 1000\n";
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
        let (scene, second) = pair(IN_ORDER, patient).await;
        let mut served = 0;
        for name in names {
            // Half of the calls may fail before a share of failures counts, which is at twenty.
            let stream = served % 2 == 1;
            let (response, first_asked, second_asked) = ask(&scene, &second, name, stream).await;
            let text = assert_told(name, &response, stream, Told::Answer);
            assert_eq!(
                (text.as_str(), first_asked, second_asked),
                ("from the second", 1, 1),
                "{name}"
            );
            served += 1;
        }
        let rows = scene.rows().await;
        assert_eq!(rows.len(), served, "one charge a call, whoever serves it");
        assert!(rows.iter().all(|row| row["outcome"] == "ok"), "{rows:?}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn what_no_other_candidate_would_do_better_is_not_tried_there() {
    let settings = "[timeouts]\nheaders_ms = 300\nfirst_content_ms = 300\nidle_ms = 300\n[retries]\nbreaker_consecutive = 1000\n";
    let (scene, second) = pair(IN_ORDER, settings).await;
    for (name, told) in [
        ("400", Told::Refused("invalid_parameter")),
        ("context-length", Told::Refused("context_length_exceeded")),
        ("content-policy", Told::Refused("content_policy_violation")),
        // The call may be running there: a second one could be paid for twice.
        ("hang", Told::Refused("upstream_timeout")),
        ("hang-after-headers", Told::Refused("upstream_timeout")),
    ] {
        for stream in [false, true] {
            let (response, first_asked, second_asked) = ask(&scene, &second, name, stream).await;
            assert_told(name, &response, stream, told);
            assert_eq!((first_asked, second_asked), (1, 0), "{name}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn after_the_first_content_nobody_else_goes_on() {
    let (scene, second) = pair(IN_ORDER, "").await;
    for name in ["error-event", "sse-cut-between-events", "reset-mid-body"] {
        let (response, first_asked, second_asked) = ask(&scene, &second, name, true).await;
        let text = assert_told(name, &response, true, Told::Broken("upstream_error"));
        assert!(text.starts_with("w1"), "{name}: {text}");
        assert_eq!((first_asked, second_asked), (1, 0), "{name}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_candidate_that_is_down_costs_nothing_but_a_moment() {
    let (scene, second) = pair(IN_ORDER, "").await;
    let mut config = crate::scene::settings(&scene.upstream);
    config = config.replace(&scene.upstream.base_url(), &refusing_base_url().await);
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
    // Two more attempts at the most.
    let before = scene.upstream.request_count();
    (0..4).for_each(|_| scene.upstream.push(reply("500")));
    assert_error(
        "500 for ever",
        &scene.chat(&hello(json!({}))).await,
        "upstream_error",
        None,
    );
    assert_eq!(
        (scene.upstream.request_count() - before, scene.upstream.queued()),
        (3, 1)
    );
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    // An upstream that asks for longer than a caller would wait, and calls that may be running.
    for (name, code) in [
        ("429-long", "model_unavailable"),
        ("reset", "upstream_error"),
        ("empty", "upstream_error"),
    ] {
        let before = scene.upstream.request_count();
        scene.upstream.push(reply(name));
        assert_error(name, &scene.chat(&hello(json!({}))).await, code, None);
        assert_eq!(scene.upstream.request_count() - before, 1, "{name}");
    }
    assert_eq!(scene.rows().await.len(), 8, "attempts are no calls");
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
    // Fifty are expected; more than a hundred or less than ten would be a one in a billion chance.
    assert!((10..100).contains(&one), "{one} of 200");
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_candidate_is_set_aside_and_comes_back() {
    let (scene, second) = pair(
        IN_ORDER,
        "[retries]\nbreaker_consecutive = 3\nbreaker_open_ms = 300\n",
    )
    .await;
    scene.upstream.set_default(reply("500"));
    for _ in 0..3 {
        assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    }
    assert_eq!((scene.upstream.request_count(), second.request_count()), (3, 3));
    assert!(scene.gateway.log().contains("set aside"), "operators are told");
    // Now the second is asked first; a probe finds out that the first is well again.
    scene.upstream.set_default(Reply::text("well again"));
    let well = |body: &Value| body["choices"][0]["message"]["content"] == "well again";
    eventually("the first candidate is asked again", async || {
        well(&scene.chat(&hello(json!({}))).await.json())
    })
    .await;
    for _ in 0..5 {
        assert!(
            well(&scene.chat(&hello(json!({}))).await.json()),
            "it is first in order"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_candidate_that_is_busy_or_locked_is_left_alone_for_a_while() {
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
