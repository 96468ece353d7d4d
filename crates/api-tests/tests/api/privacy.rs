//! Prompts, answers and secrets do not appear in logs, stored data or responses.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Options, Storage};
use tollgate_testkit::upstream::{Answer, FAULTS, FakeUpstream, Outcome, Reply};

use crate::scene::{BINARY, CHAT, PROVIDER_KEY, Scene, files_in, hello, with};

/// Text in every request.
const PROMPT: &str = "c4n4ry-prompt";
/// Text in every answer.
const ANSWER: &str = "c4n4ry-answer";

/// Returns the path of a file below the folder that contains this text.
fn found_in(folder: &Path, needle: &str) -> Option<String> {
    let contains = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    };
    let found = files_in(folder).find(contains);
    found.map(|path| path.display().to_string())
}

/// Makes calls of every kind, each with the canary in every place for a caller's text.
async fn send_canary_everywhere(scene: &Scene) {
    let body = with(
        hello(
            json!({"user": PROMPT, "stop": [PROMPT], "metadata": {"note": PROMPT}, "prompt_cache_key": PROMPT}),
        ),
        json!({
            "messages": [
                {"role": "system", "content": PROMPT},
                {"role": "user", "content": [{"type": "text", "text": PROMPT}, {"type": "image_url", "image_url": {"url": format!("https://a.b/{PROMPT}.png")}}]},
                {"role": "assistant", "tool_calls": [{"id": PROMPT, "type": "function", "function": {"name": PROMPT, "arguments": format!("{{\"a\":\"{PROMPT}\"}}")}}]},
                {"role": "tool", "tool_call_id": PROMPT, "content": PROMPT},
            ],
            "tools": [{"type": "function", "function": {"name": PROMPT, "description": PROMPT, "parameters": {"title": PROMPT}}}],
        }),
    );
    for stream in [false, true] {
        scene.upstream.push(Reply::text(ANSWER));
        let response = scene.chat(&with(body.clone(), json!({"stream": stream}))).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let simulated =
            json!({"model": "sim/chat", "stream": stream, "messages": [{"role": "user", "content": PROMPT}]});
        assert_eq!(scene.chat(&simulated).await.status, 200);
        // Failing upstreams repeat the request in their errors.
        for status in [400, 401, 429, 500] {
            scene.upstream.push(Reply::error(
                status,
                "refused",
                &format!("{PROMPT} {ANSWER} {PROVIDER_KEY}"),
            ));
            assert!(
                scene
                    .chat(&with(body.clone(), json!({"stream": stream})))
                    .await
                    .status
                    >= 400
            );
        }
        for fault in FAULTS.iter().filter(|fault| fault.outcome == Outcome::Failure) {
            scene.upstream.push(fault.reply());
            scene.chat(&with(body.clone(), json!({"stream": stream}))).await;
        }
        scene
            .upstream
            .push(Reply::answer(Answer::text(ANSWER)).error_after(2, "x", PROMPT));
        scene.chat(&with(body.clone(), json!({"stream": stream}))).await;
    }
    for (input, status) in [
        (json!(PROMPT), 200),
        (json!([PROMPT, 5]), 400),
        (json!(["a", format!("[[sim {PROMPT}]]")]), 400),
        (json!(format!("{PROMPT} [[sim error=upstream_error]]")), 502),
    ] {
        let body = json!({"model": "sim/embeddings", "user": PROMPT, "input": input});
        let response = scene
            .client()
            .post_json("/v1/embeddings", &scene.key.secret, &body)
            .await;
        assert_eq!(response.status, status, "{}", response.text());
    }
    // Invalid requests with the canary, as values and as malformed JSON.
    let post = |body: String| {
        Request::post(CHAT, body)
            .header("content-type", "application/json")
            .key(&scene.key.secret)
    };
    for text in [
        format!("{{\"model\": \"{PROMPT}\", \"messages\": [{PROMPT}"),
        hello(json!({"temperature": PROMPT})).to_string(),
        hello(json!({"messages": [{"role": PROMPT, "content": PROMPT}]})).to_string(),
        hello(json!({"model": PROMPT})).to_string(),
        hello(json!({"stop": {"a": PROMPT}})).to_string(),
        PROMPT.repeat(10),
    ] {
        assert!(scene.client().send(&post(text)).await.status >= 400);
    }
    let query = format!("/v1/account/usage?model={PROMPT}");
    assert_eq!(scene.client().get(&query, &scene.key.secret).await.status, 200);
    let wrong = format!("/v1/account/usage?limit={PROMPT}");
    assert_eq!(scene.client().get(&wrong, &scene.key.secret).await.status, 400);
    let named = Request::get("/v1/models")
        .key(&scene.key.secret)
        .header("cookie", PROMPT)
        .header("x-note", PROMPT);
    assert_eq!(scene.client().send(&named).await.status, 200);
}

#[tokio::test]
async fn neither_prompts_nor_secrets_are_logged_or_stored() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = "[server]\naccess_log = \"all\"\n[retries]\nextra_attempts = 0\n";
    let mut options: Options = Scene::options(&upstream, Storage::Sqlite, config);
    options.env.push(("TOLLGATE_LOG".to_owned(), "debug".to_owned()));
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    let mut scene = Scene {
        gateway,
        upstream,
        account,
        key,
    };
    send_canary_everywhere(&scene).await;

    // Keys that do not work are also secrets: many differ from a valid key by one character.
    let almost = format!("{}x", scene.key.secret);
    scene.client().get("/v1/models", &almost).await;
    let second = scene.gateway.key(&scene.account).await;
    scene
        .gateway
        .command_line()
        .run(&["keys", "revoke", &second.id])
        .await;
    scene.client().get("/v1/models", &second.secret).await;
    scene.chat(&hello(json!({}))).await;

    let first_key = scene.gateway.stdout();
    let first_key = first_key
        .split_whitespace()
        .find(|word| word.starts_with("sk-service-"))
        .unwrap()
        .to_owned();
    let pepper = std::fs::read_to_string(scene.gateway.data().join("secrets/pepper")).unwrap();
    let log = scene.gateway.log();
    assert!(
        log.contains("request answered") && log.lines().count() > 100,
        "the log is not empty"
    );
    scene.gateway.stop().await;
    for secret in [
        PROMPT,
        ANSWER,
        PROVIDER_KEY,
        &scene.key.secret,
        &second.secret,
        &first_key,
        pepper.trim(),
    ] {
        let log = scene.gateway.log();
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
    // Only the digest and the last four characters of a key are stored.
    for secret in [
        PROMPT,
        ANSWER,
        PROVIDER_KEY,
        &scene.key.secret,
        &second.secret,
        &first_key,
    ] {
        assert_eq!(found_in(&scene.gateway.data(), secret), None, "{secret}");
    }
    scene.gateway.restart().await;
    assert!(!scene.gateway.stdout().contains(&first_key), "it is shown once");
    assert!(
        !scene.gateway.stdout().contains("first key"),
        "{}",
        scene.gateway.stdout()
    );
    scene.finish().await;
}

#[tokio::test]
async fn every_line_of_the_log_is_json_with_the_requests_id() {
    let scene = Scene::start().await;
    let request = scene
        .request(&hello(json!({"n": 0})))
        .header("x-request-id", "theirs-17");
    let response = scene.client().send(&request).await;
    assert_ne!(response.request_id(), "theirs-17", "ids are always new");
    let id = response.request_id();
    scene.gateway.wait_for_log(id, 0).await;
    let log = scene.gateway.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let line = lines.iter().find(|line| line["request.id"] == id).unwrap();
    assert_eq!(
        (&line["client_request_id"], &line["code"]),
        (&json!("theirs-17"), &json!("invalid_parameter"))
    );
    assert_eq!(
        (&line["param"], &line["status"], &line["path"]),
        (&json!("n"), &json!(400), &json!(CHAT))
    );
    assert_eq!(line["account.id"], scene.account);
    scene.finish().await;
}

#[tokio::test]
async fn secrets_are_readable_by_their_owner_only() {
    let scene = Scene::start().await;
    let mode = |name: &str| {
        let path = scene.gateway.data().join(name);
        std::fs::metadata(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("secrets"), 0o700);
    assert_eq!(mode("secrets/pepper"), 0o600);
    assert_eq!(mode("tollgate.sock"), 0o600);
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert_eq!(readable_by_others(&scene.gateway.data()), Vec::<String>::new());
    scene.finish().await;
}

/// Returns files and folders below this one that other users can access.
fn readable_by_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The database may remove a temporary file meanwhile.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(path.display().to_string());
        }
        if metadata.is_dir() {
            found.extend(readable_by_others(&path));
        }
    }
    found
}

/// Users sometimes append the key to the URL by mistake.
#[tokio::test]
async fn a_key_in_a_path_is_not_logged() {
    let scene = Scene::start().await;
    let path = format!("/v1/{}/models", scene.key.secret);
    let response = scene.client().send(&Request::get(&path)).await;
    assert_eq!(response.status, 404);
    scene.gateway.wait_for_log(response.request_id(), 0).await;
    let log = scene.gateway.log();
    assert!(!log.contains(&scene.key.secret), "{log}");
    assert!(log.contains("/v1/sk-service-…/models"), "{log}");
    scene.finish().await;
}

/// The caller's own request id is logged, also when the request succeeds.
#[tokio::test]
async fn requests_with_an_id_of_their_caller_are_logged() {
    let scene = Scene::start().await;
    let request = scene
        .request(&hello(json!({})))
        .header("x-request-id", "theirs-18");
    let named = scene.client().send(&request).await;
    assert_eq!(named.status, 200);
    let unnamed = scene.chat(&hello(json!({}))).await;
    scene.gateway.wait_for_log(named.request_id(), 0).await;
    let log = scene.gateway.log();
    let line = log.lines().find(|line| line.contains("theirs-18")).unwrap();
    assert!(line.contains(named.request_id()), "{line}");
    assert!(!log.contains(unnamed.request_id()), "its usage row is its record");
    scene.finish().await;
}
