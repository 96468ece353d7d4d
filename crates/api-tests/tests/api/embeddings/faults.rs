//! Every fault of the scripted upstream, safe retries on the same and on other candidates, and
//! callers that disconnect.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{FAULTS, FakeUpstream, Fault, Gate, Outcome, Reply, fault};

use super::{EMBEDDINGS, PRICE, VECTORS, ask, embed, model, scene_on, vectors};
use crate::scene::{GRANTED, PROVIDER, Scene, assert_error, provider};

/// Returns the expected error code of a fault; `None` if the call succeeds.
fn expected_code(fault: &Fault) -> Option<&'static str> {
    match fault.name {
        "hang-mid-body" | "endless" => Some("upstream_timeout"),
        // These faults break streams. The call fails, because its response is not streamed.
        "close-without-last-chunk"
        | "reset-mid-body"
        | "sse-cut-mid-event"
        | "sse-cut-between-events"
        | "error-event"
        | "role-then-error" => Some("upstream_error"),
        "400" => Some("invalid_parameter"),
        "context-length" => Some("context_length_exceeded"),
        "content-policy" => Some("content_policy_violation"),
        "429" | "429-long" | "html-429" | "503" | "529" | "html-503" => Some("model_unavailable"),
        _ => match fault.outcome {
            Outcome::Answer => None,
            Outcome::Failure => Some("upstream_error"),
            Outcome::Endless => Some("upstream_timeout"),
        },
    }
}

/// Returns the charged tokens, and whether the gateway estimated them.
fn charge(fault: &Fault) -> (i64, bool) {
    match fault.name {
        // The estimate for `Hi there` is also two tokens.
        "usage-missing" | "usage-null" | "usage-huge" | "usage-negative" | "usage-float" | "usage-string" => {
            (2, true)
        }
        "usage-zero" => (0, false),
        "usage-beyond-u64" => (7, false),
        "usage-inconsistent" => (5, false),
        _ => (2, false),
    }
}

async fn play(settings: &str, chosen: impl Fn(&Fault) -> bool) {
    let scene = scene_on(
        Default::default(),
        &format!("[retries]\nextra_attempts = 0\n{settings}"),
    )
    .await;
    let (mut paid, mut played) = (0, 0);
    for fault in FAULTS.iter().filter(|fault| chosen(fault)) {
        let what = fault.name;
        // At full speed, the response would reach its size limit before its timeout.
        scene.upstream.push(match fault.name {
            "endless" => fault.reply().pace(Duration::from_millis(1)),
            _ => fault.reply(),
        });
        let response = ask(&scene, &embed(json!("Hi there"), json!({}))).await;
        played += 1;
        assert_eq!(scene.upstream.request_count(), played, "{what}: asked once");
        let (tokens, estimated) = match expected_code(fault) {
            None => {
                assert_eq!(vectors(what, &response, "float").len(), 1);
                charge(fault)
            }
            Some(code) => {
                let param = (code == "context_length_exceeded").then_some("input");
                assert_error(what, &response, code, param);
                (0, false)
            }
        };
        paid += tokens * PRICE;
        let usage = scene.usage_of(response.request_id()).await;
        let row = &usage["data"][0];
        assert_eq!(nanos(&row["cost"]), tokens * PRICE, "{what}: {row}");
        assert_eq!(row["estimated"], estimated, "{what}: {row}");
        let outcome = match expected_code(fault) {
            None => "ok",
            Some("upstream_timeout") => "timeout",
            Some(_) => "upstream_error",
        };
        assert_eq!(row["outcome"], outcome, "{what}: {row}");
        assert_eq!(nanos(&usage["balance"]["credits"]), GRANTED - paid, "{what}");
        assert_eq!(usage["balance"]["held"], "0", "{what}: nothing stays held");
    }
    assert!(played > 0, "some faults were chosen");
    let log = scene.gateway.log();
    for secret in [
        "sk-secret",
        crate::scene::PROVIDER_KEY,
        "The server had an error",
        "Hi there",
    ] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    let check = scene.finish().await;
    assert_eq!((check.usage_rows, check.revenue), (played, paid));
}

#[tokio::test]
async fn unusual_successful_responses_are_charged() {
    play("", |fault| fault.outcome == Outcome::Answer).await;
}

#[tokio::test]
async fn upstream_failures_cost_nothing() {
    play("", |fault| fault.outcome == Outcome::Failure).await;
}

#[tokio::test]
async fn silent_upstreams_time_out() {
    let short = "[timeouts]\nheaders_ms = 400\nidle_ms = 400\ntotal_ms = 30000\n";
    play(short, |fault| {
        fault.outcome == Outcome::Endless && fault.name != "endless"
    })
    .await;
}

#[tokio::test]
async fn endless_responses_time_out() {
    play("[timeouts]\ntotal_ms = 500\n", |fault| fault.name == "endless").await;
}

#[tokio::test]
async fn malformed_vectors_cost_nothing() {
    let scene = scene_on(
        Default::default(),
        "[retries]\nextra_attempts = 0\nbreaker_consecutive = 1000\n",
    )
    .await;
    let usage = r#""usage":{"prompt_tokens":2,"total_tokens":2}"#;
    for (what, data) in [
        ("none", "[]".to_owned()),
        ("one too few", r#"[{"index":0,"embedding":[1,2]}]"#.to_owned()),
        (
            "one too many",
            r#"[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]"#.to_owned(),
        ),
        ("no list", r#"{"embedding":[1]}"#.to_owned()),
        ("no objects", "[[1],[2]]".to_owned()),
        ("no vectors", r#"[{"index":0},{"index":1}]"#.to_owned()),
        ("empty ones", r#"[{"embedding":[]},{"embedding":[]}]"#.to_owned()),
        (
            "words in them",
            r#"[{"embedding":["a"]},{"embedding":[null]}]"#.to_owned(),
        ),
        (
            "half base64",
            r#"[{"embedding":"AACAPw=="},{"embedding":[1]}]"#.to_owned(),
        ),
        (
            "no whole floats",
            r#"[{"embedding":"AACA"},{"embedding":"AACA"}]"#.to_owned(),
        ),
        (
            "no base64",
            r#"[{"embedding":"AA*APw=="},{"embedding":"AA*APw=="}]"#.to_owned(),
        ),
        // Base64 can contain NaN, although JSON numbers cannot.
        (
            "not a number",
            r#"[{"embedding":"AADAfw=="},{"embedding":"AADAfw=="}]"#.to_owned(),
        ),
    ] {
        let body = format!(r#"{{"object":"list","data":{data},{usage}}}"#);
        scene.upstream.push(Reply::body(200, "application/json", body));
        let response = ask(&scene, &embed(json!(["a", "b"]), json!({}))).await;
        assert_error(what, &response, "upstream_error", None);
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn the_only_candidate_is_retried_where_that_is_safe() {
    let scene = scene_on(Default::default(), "").await;
    let reply = |name: &str| fault(name).unwrap().reply();
    for (name, attempts, status) in [
        ("500", 2, 200),
        ("503", 2, 200),
        ("429", 2, 200),
        ("close-after-headers", 1, 502),
        ("empty", 1, 502),
    ] {
        let before = scene.upstream.request_count();
        scene.upstream.push(reply(name));
        let response = ask(&scene, &embed(json!("Hi there"), json!({}))).await;
        assert_eq!(response.status, status, "{name}: {}", response.text());
        assert_eq!(scene.upstream.request_count() - before, attempts, "{name}");
    }
    assert_eq!(scene.rows().await.len(), 5, "attempts are no calls");
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * 2 * PRICE);
    scene.finish().await;
}

#[tokio::test]
async fn another_candidate_serves_after_a_failure() {
    let second = FakeUpstream::start().await;
    let targets = format!(r#""deaf/vectors-v1", "{PROVIDER}/vectors-v1", "southwind/vectors-v1""#);
    let config = format!(
        "{south}[providers.deaf]\npreset = \"groq\"\nbase_url = \"{base}\"\napi_key_env = \"PROVIDER_KEY\"\n{model}[retries]\nbreaker_consecutive = 1000\n",
        south = provider("southwind", &second.base_url()),
        base = second.base_url(),
        model = model(VECTORS, &targets),
    );
    let scene = Scene::start_with(&config).await;
    for (name, served) in [
        ("500", true),
        ("reset", true),
        ("html", true),
        ("400", false),
        ("context-length", false),
    ] {
        let before = (scene.upstream.request_count(), second.request_count());
        scene.upstream.push(fault(name).unwrap().reply());
        let response = ask(&scene, &embed(json!("Hi there"), json!({}))).await;
        assert_eq!(response.status == 200, served, "{name}: {}", response.text());
        // The provider `deaf` has no embeddings endpoint, so it is not a candidate.
        let asked = (
            scene.upstream.request_count() - before.0,
            second.request_count() - before.1,
        );
        assert_eq!(asked, (1, u64::from(served)), "{name}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * 2 * PRICE);
    scene.finish().await;
}

#[tokio::test]
async fn a_disconnected_caller_pays_the_reported_tokens() {
    let scene: Scene = scene_on(Default::default(), "").await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(1).hold_head(&gate));
    let body: Value = embed(json!("Hi there"), json!({}));
    let mut connection = scene.client().connect().await;
    let request = Request::json(EMBEDDINGS, &body).key(&scene.key.secret);
    connection.write(&request.bytes()).await.unwrap();
    scene.upstream.wait_for_requests(1).await;
    drop(connection);
    gate.open();
    let balance = scene.settled().await;
    assert_eq!(balance.credits, GRANTED - 2 * PRICE);
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    // The gateway may notice the disconnect or the response first. The charge is the same.
    let outcome = &rows[0]["outcome"];
    assert!(outcome == "client_gone" || outcome == "ok", "{rows:?}");
    scene.finish().await;
}

/// A server that ignores `dimensions` returns vectors of its default length. They are neither
/// delivered nor charged, and another candidate is tried.
#[tokio::test]
async fn vectors_of_the_wrong_length_are_refused() {
    let second = FakeUpstream::start().await;
    let both = model(
        "acme/both",
        &format!("\"{PROVIDER}/vectors-v1\", \"second/vectors-v1\""),
    );
    let block = format!(
        "[providers.second]\npreset = \"openai-compatible\"\nbase_url = \"{}\"\n",
        second.base_url()
    );
    let scene = scene_on(Default::default(), &(block + &both)).await;
    let list = |vectors: &[Value]| {
        let item = |(index, vector): (usize, &Value)| json!({"object": "embedding", "index": index, "embedding": vector});
        let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
        let usage = json!({"prompt_tokens": 2, "total_tokens": 2});
        let body = json!({"object": "list", "data": data, "model": "x", "usage": usage});
        Reply::body(200, "application/json", body.to_string())
    };
    // Three and two 32-bit floats of value 1.0, in base64.
    let (three, two) = (json!("AACAPwAAgD8AAIA/"), json!("AACAPwAAgD8="));
    for (what, encoding, came, is_right) in [
        ("longer", "float", vec![json!([1, 2, 3]); 2], false),
        ("shorter", "float", vec![json!([1]); 2], false),
        ("uneven", "float", vec![json!([1, 2]), json!([1, 2, 3])], false),
        ("as requested", "float", vec![json!([1, 2]); 2], true),
        ("longer in base64", "base64", vec![three.clone(); 2], false),
        ("as requested in base64", "base64", vec![two.clone(); 2], true),
        ("longer in the other encoding", "float", vec![three; 2], false),
        ("as requested in the other encoding", "float", vec![two; 2], true),
    ] {
        let before = scene.balance().await.credits;
        let asked = |model: &str| {
            let members = json!({"dimensions": 2, "encoding_format": encoding, "model": model});
            embed(json!(["Hi", "there"]), members)
        };
        scene.upstream.push(list(&came));
        let response = ask(&scene, &asked(VECTORS)).await;
        if is_right {
            assert_eq!(vectors(what, &response, encoding).len(), 2);
            assert!(scene.settled().await.credits < before, "{what}");
            continue;
        }
        assert_error(what, &response, "unsupported_parameter", Some("dimensions"));
        assert_eq!(scene.settled().await.credits, before, "{what}");
        scene.upstream.push(list(&came));
        let response = ask(&scene, &asked("acme/both")).await;
        assert_eq!(vectors(what, &response, encoding)[0].len(), 2, "{what}");
    }
    // The length is not checked for a request without `dimensions`.
    scene.upstream.push(list(&[json!([1, 2, 3])]));
    let response = ask(&scene, &embed(json!("Hi"), json!({}))).await;
    assert_eq!(vectors("any length", &response, "float")[0].len(), 3);
    scene.finish().await;
}
