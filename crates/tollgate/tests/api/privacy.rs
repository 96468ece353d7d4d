//! What nobody may find in logs, data or answers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Options, Storage};
use tollgate_testkit::upstream::{Answer, FAULTS, FakeUpstream, Outcome, Reply};

use crate::scene::{BINARY, CHAT, PROVIDER_KEY, Scene, hello, with};

/// What callers say.
const PROMPT: &str = "c4n4ry-prompt";
/// What models say.
const ANSWER: &str = "c4n4ry-answer";

/// Whether a file of the folder holds these bytes.
fn found_in(folder: &Path, needle: &str) -> Option<String> {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            if let Some(found) = found_in(&path, needle) {
                return Some(found);
            }
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes
                .windows(needle.len())
                .any(|window| window == needle.as_bytes())
            {
                return Some(path.display().to_string());
            }
        }
    }
    None
}

/// Calls of every kind, each with the canary wherever a caller can put text.
async fn say_it_everywhere(scene: &Scene) {
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
        // Upstreams that fail repeat what they were asked.
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
    // Bad input with it, in values and in what is no JSON.
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
    say_it_everywhere(&scene).await;

    // Keys that do not work are secrets, too: most are right but for a letter.
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
        "there is a log to look at"
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
    // A digest is kept of a key, and its last four characters.
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
    assert!(!scene.gateway.stdout().contains(&first_key), "it was shown once");
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
    assert_ne!(response.request_id(), "theirs-17", "ids are always ours");
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
async fn what_is_secret_is_the_owners_alone() {
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
    scene.finish().await;
}
