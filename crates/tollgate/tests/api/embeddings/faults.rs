//! Every fault of the scripted upstream, each once; another attempt and another candidate where that is safe; callers
//! that leave.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{FAULTS, FakeUpstream, Fault, Gate, Outcome, Reply, fault};

use super::{EMBEDDINGS, PRICE, VECTORS, ask, embed, model, scene_on, vectors};
use crate::scene::{GRANTED, PROVIDER, Scene, assert_error, provider};

/// The code of the failure; `None` for an answer.
fn told(fault: &Fault) -> Option<&'static str> {
    match fault.name {
        "hang-mid-body" | "endless" => Some("upstream_timeout"),
        // Without a stream, what breaks it is a failure.
        "close-without-last-chunk"
        | "reset-mid-body"
        | "sse-cut-mid-event"
        | "sse-cut-between-events"
        | "error-event"
        | "role-then-error" => Some("upstream_error"),
        "400" => Some("invalid_parameter"),
        "context-length" => Some("context_length_exceeded"),
        "content-policy" => Some("content_policy_violation"),
        "429" | "429-long" | "html-429" => Some("model_unavailable"),
        _ => match fault.outcome {
            Outcome::Answer => None,
            Outcome::Failure => Some("upstream_error"),
            Outcome::Endless => Some("upstream_timeout"),
        },
    }
}

/// Tokens that are paid, and whether the gateway counted them.
fn charge(fault: &Fault) -> (i64, bool) {
    match fault.name {
        // `Hi there` is two tokens by the estimate, too.
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
        // At full speed the bound on an answer's size would come before the one on its time.
        scene.upstream.push(match fault.name {
            "endless" => fault.reply().pace(Duration::from_millis(1)),
            _ => fault.reply(),
        });
        let response = ask(&scene, &embed(json!("Hi there"), json!({}))).await;
        played += 1;
        assert_eq!(scene.upstream.request_count(), played, "{what}: asked once");
        let (tokens, estimated) = match told(fault) {
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
        let outcome = match told(fault) {
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
async fn answers_that_are_odd() {
    play("", |fault| fault.outcome == Outcome::Answer).await;
}

#[tokio::test]
async fn failures() {
    play("", |fault| fault.outcome == Outcome::Failure).await;
}

#[tokio::test]
async fn silence() {
    let short = "[timeouts]\nheaders_ms = 400\nidle_ms = 400\ntotal_ms = 30000\n";
    play(short, |fault| {
        fault.outcome == Outcome::Endless && fault.name != "endless"
    })
    .await;
}

#[tokio::test]
async fn no_end() {
    play("[timeouts]\ntotal_ms = 500\n", |fault| fault.name == "endless").await;
}

#[tokio::test]
async fn what_is_no_list_of_vectors_costs_nothing() {
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
        // No JSON number says what is not a number.
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
async fn the_only_candidate_is_tried_again_where_that_is_safe() {
    let scene = scene_on(Default::default(), "").await;
    let reply = |name: &str| fault(name).unwrap().reply();
    for (name, attempts, status) in [
        ("500", 2, 200),
        ("503", 2, 200),
        ("429", 2, 200),
        ("reset", 1, 502),
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
async fn another_candidate_serves_before_anything_was_answered() {
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
        // One that has no embeddings is not among the candidates.
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
async fn a_caller_that_leaves_pays_what_is_reported() {
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
    // Which of the two is seen first, the leaving or the answer, makes no difference to what is paid.
    let outcome = &rows[0]["outcome"];
    assert!(outcome == "client_gone" || outcome == "ok", "{rows:?}");
    scene.finish().await;
}
