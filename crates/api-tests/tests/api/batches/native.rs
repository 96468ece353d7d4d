//! Batches that run as batches of the model's provider.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Options, Storage, eventually, nanos};
use tollgate_testkit::upstream::{BATCH_TOKENS, BatchFault, FakeUpstream, Reply};

use super::{EMBEDDINGS, at_65, chat, line, lines};
use crate::scene::{BINARY, CHAT, GRANTED, PROVIDER_KEY, Scene};

/// A chat model of a provider with OpenAI's batches. [`VECTORS`] is an embedding model of that
/// provider, and [`OTHER`] is a model of a provider with Anthropic's batches.
const ONE: &str = "acme/one";
const VECTORS: &str = "acme/batched-vectors";
const OTHER: &str = "acme/other";
/// A model with a large context window.
const WIDE: &str = "acme/wide";

fn config(upstream: &FakeUpstream) -> String {
    let address = upstream.base_url();
    format!(
        r#"
[limits]
rpm = 100000

[providers.eastwind]
preset = "openai"
base_url = "{address}"
api_key_env = "PROVIDER_KEY"
batches = "native"

[providers.southwind]
preset = "anthropic"
base_url = "{address}"
api_key_env = "PROVIDER_KEY"
batches = "native"

[models."{ONE}"]
targets = ["eastwind/one-v1"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}

[models."{OTHER}"]
targets = ["southwind/other-v1"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}

[models."{WIDE}"]
targets = ["eastwind/wide-v1"]
prices = {{ input = "0.1", output = "0.1" }}
limits = {{ context_window = 20000000, max_output_tokens = 4096 }}

[models."{VECTORS}"]
type = "embedding"
targets = ["eastwind/vectors-v1"]
prices = {{ input = "1" }}
limits = {{ context_window = 8192 }}
"#
    )
}

async fn scene(storage: Storage) -> Scene {
    scene_with(storage, "").await
}

async fn scene_with(storage: Storage, more: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = config(&upstream) + more;
    let options: Options = Scene::options(&upstream, storage, &config);
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    let scene = Scene {
        gateway,
        upstream,
        account,
        key,
    };
    scene.gateway.grant(&scene.account, "1000").await;
    scene
}

/// Returns the charge for one answered line, in nano-credits.
fn answer_cost() -> i64 {
    let (input, output) = BATCH_TOKENS;
    at_65(1_000 * i64::try_from(input + output).unwrap())
}

/// Returns the output and the error lines of an ended batch. Asserts that each request is in one of
/// them, and that the charge is the cost of the output.
async fn files(scene: &Scene, done: &Value, total: usize) -> [BTreeMap<String, Value>; 2] {
    let answered = scene.results(&done["output_file_id"]).await;
    let errors = scene.results(&done["error_file_id"]).await;
    assert_eq!(answered.len() + errors.len(), total, "{done}");
    assert!(answered.keys().all(|name| !errors.contains_key(name)));
    let cost: i64 = answered
        .values()
        .map(|line| nanos(&line["response"]["body"]["usage"]["cost"]))
        .sum();
    assert_eq!(nanos(&done["cost"]), cost);
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    assert_eq!(scene.rows().await.len(), 1);
    [answered, errors]
}

/// Counts the upstream requests outside of batches.
fn alone(scene: &Scene) -> usize {
    let requests = scene.upstream.requests();
    let is_alone = |path: &str| [CHAT, EMBEDDINGS, "/v1/messages"].contains(&path);
    requests.iter().filter(|request| is_alone(&request.path)).count()
}

#[tokio::test]
async fn chat_lines_run_in_a_batch_of_the_provider() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        for (model, wire, endpoint) in [(ONE, "openai", CHAT), (OTHER, "anthropic", "/v1/messages")] {
            let scene = scene(storage).await;
            let content = lines(model, 5) + &line("odd \"one\"", CHAT, &chat(model, "two\nlines")) + "\n";
            let batch = scene.batch(&scene.input(&content).await, CHAT).await;
            let done = scene.until(&batch, "completed").await;
            let counts = json!({"total": 6, "completed": 6, "failed": 0});
            assert_eq!(done["request_counts"], counts);
            let [answered, _] = files(&scene, &done, 6).await;
            for (name, said) in [
                ("r3", "You said: number 3"),
                ("odd \"one\"", "You said: two\nlines"),
            ] {
                let body = &answered[name]["response"]["body"];
                assert_eq!(body["object"], "chat.completion", "{body}");
                assert_eq!(body["model"], model);
                assert_eq!(body["choices"][0]["message"]["content"], said);
                assert_eq!(nanos(&body["usage"]["cost"]), answer_cost());
            }
            let made = scene.upstream.batches();
            assert_eq!((made.len(), alone(&scene)), (1, 0));
            assert_eq!((made[0].wire, made[0].endpoint.as_str()), (wire, endpoint));
            let upstream_model = model.replace("acme/", "") + "-v1";
            for (place, (name, body)) in made[0].requests.iter().enumerate() {
                assert_eq!(*name, format!("r{place}"), "no id of the caller");
                assert_eq!(body["model"], upstream_model);
            }
            assert_eq!(scene.upstream.batch_files(), 0, "no file is left there");
            scene.finish().await;
        }
    }
}

#[tokio::test]
async fn embeddings_and_messages_run_in_a_batch_of_the_provider() {
    let scene = scene(Storage::Sqlite).await;
    let content: String = ["a", "b"]
        .map(|name| line(name, EMBEDDINGS, &json!({"model": VECTORS, "input": name})) + "\n")
        .concat();
    let batch = scene.batch(&scene.input(&content).await, EMBEDDINGS).await;
    let done = scene.until(&batch, "completed").await;
    let [answered, _] = files(&scene, &done, 2).await;
    let body = &answered["b"]["response"]["body"];
    assert_eq!(body["data"][0]["embedding"], json!([0.5, 0.25]));
    let input = i64::try_from(BATCH_TOKENS.0).unwrap();
    assert_eq!(nanos(&body["usage"]["cost"]), at_65(1_000 * input));

    for model in [OTHER, ONE] {
        let params =
            json!({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]});
        let body = json!({"requests": [{"custom_id": "m", "params": params}]});
        let batches = "/v1/messages/batches";
        let created = scene.client().post_json(batches, &scene.key.secret, &body).await;
        assert_eq!(created.status, 200, "{}", created.text());
        let path = format!("{batches}/{}", created.json()["id"].as_str().unwrap());
        eventually("the batch has ended", async || {
            scene.ask("GET", &path, &[]).await.json()["processing_status"] == "ended"
        })
        .await;
        let results = scene.ask("GET", &format!("{path}/results"), &[]).await;
        let result = &results.json()["result"];
        assert_eq!(result["type"], "succeeded", "{result}");
        assert_eq!(result["message"]["content"][0]["text"], "You said: Hi");
        assert_eq!(nanos(&result["message"]["usage"]["cost"]), answer_cost());
    }
    let wires: Vec<&str> = scene.upstream.batches().iter().map(|made| made.wire).collect();
    assert_eq!((wires, alone(&scene)), (vec!["openai", "anthropic", "openai"], 0));
    scene.finish().await;
}

/// For every fault of the provider's batch, each request is in one file, and only results are
/// charged.
#[tokio::test]
async fn each_line_has_one_result_for_every_provider_fault() {
    // The fault, the only wire format that it applies to, the answered lines of six, and the error
    // code of the other lines.
    for (fault, wire, answered, code) in [
        (BatchFault::Fails, Some("openai"), 0, "upstream_error"),
        (BatchFault::Expires, None, 3, "batch_expired"),
        (BatchFault::Missing, None, 5, "upstream_error"),
        (BatchFault::Twice, None, 6, ""),
        (BatchFault::Malformed, None, 6, ""),
        (BatchFault::Cut, None, 6, ""),
        (BatchFault::Lost, None, 0, "upstream_error"),
        (BatchFault::TakenThenError, Some("openai"), 6, ""),
        (BatchFault::TakenThenError, Some("anthropic"), 0, "internal_error"),
    ] {
        for (model, of) in [(ONE, "openai"), (OTHER, "anthropic")] {
            if wire.is_some_and(|wire| wire != of) {
                continue;
            }
            let scene = scene(Storage::Sqlite).await;
            scene.upstream.push_for_batches(fault);
            let batch = scene.batch(&scene.input(&lines(model, 6)).await, CHAT).await;
            let done = scene.until(&batch, "completed").await;
            let [output, errors] = files(&scene, &done, 6).await;
            assert_eq!(output.len(), answered, "{fault:?} {of}");
            for line in errors.values() {
                let codes = [&line["error"]["code"], &line["response"]["body"]["error"]["code"]];
                assert!(codes.contains(&&json!(code)), "{fault:?} {of}: {line}");
            }
            assert_eq!(
                (scene.upstream.batch_submissions(), alone(&scene)),
                (1, 0),
                "{fault:?} {of}"
            );
            scene.finish().await;
        }
    }
}

#[tokio::test]
async fn lines_run_individually_if_the_provider_refuses_batches() {
    for (status, submissions, sent_alone) in [(403, 1, 4), (404, 1, 4), (429, 2, 0)] {
        let scene = scene(Storage::Sqlite).await;
        scene.upstream.push_for_batches(BatchFault::Refused(status));
        let batch = scene.batch(&scene.input(&lines(ONE, 4)).await, CHAT).await;
        let done = scene.until(&batch, "completed").await;
        assert_eq!(done["request_counts"]["completed"], 4, "{status}: {done}");
        files(&scene, &done, 4).await;
        let seen = (scene.upstream.batch_submissions(), alone(&scene));
        assert_eq!(seen, (submissions, sent_alone), "{status}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_refused_line_fails_alone() {
    for model in [ONE, OTHER] {
        let scene = scene(Storage::Sqlite).await;
        let content = lines(model, 3) + &line("bad", CHAT, &chat(model, "refuse me")) + "\n";
        let batch = scene.batch(&scene.input(&content).await, CHAT).await;
        let done = scene.until(&batch, "completed").await;
        let [_, errors] = files(&scene, &done, 4).await;
        assert_eq!(errors.keys().collect::<Vec<_>>(), ["bad"]);
        let response = &errors["bad"]["response"];
        assert_eq!(response["status_code"], 400, "{response}");
        assert_eq!(response["body"]["error"]["code"], "invalid_parameter");
        scene.finish().await;
    }
}

/// Lines that cannot be part of the provider's batch run individually. Lines that the policy blocks
/// are not sent.
#[tokio::test]
async fn lines_unfit_for_a_provider_batch_run_individually() {
    let policy = "[policy.rules.going-in]\napply = \"input\"\nwords = [\"forbidden\"]\n";
    let scene = scene_with(Storage::Sqlite, policy).await;
    scene
        .upstream
        .push_for_model("other-v1", Reply::text("{\"a\":1}"));
    let mut shaped = chat(OTHER, "JSON, please");
    shaped["response_format"] = json!({"type": "json_object"});
    let content = [
        line("first", CHAT, &chat(OTHER, "first")),
        line("shaped", CHAT, &shaped),
        line("blocked", CHAT, &chat(OTHER, "a forbidden word")),
        line("last", CHAT, &chat(OTHER, "last")),
    ];
    let batch = scene.batch(&scene.input(&content.join("\n")).await, CHAT).await;
    let done = scene.until(&batch, "completed").await;
    let [answered, errors] = files(&scene, &done, 4).await;
    assert_eq!(answered.keys().collect::<Vec<_>>(), ["first", "last", "shaped"]);
    let message = |name: &str| &answered[name]["response"]["body"]["choices"][0]["message"]["content"];
    assert_eq!(message("shaped"), "{\"a\":1}");
    assert_eq!(message("last"), "You said: last");
    assert_eq!(
        errors["blocked"]["response"]["body"]["error"]["code"],
        "content_policy_violation"
    );
    let made = scene.upstream.batches();
    let names: Vec<&str> = made[0].requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, alone(&scene)), (vec!["r0", "r3"], 1));
    scene.finish().await;
}

/// A batch beyond the size of one submission is split. After a refusal, the remaining lines run
/// individually.
#[tokio::test]
async fn a_large_batch_is_split_into_submissions() {
    const LINES: usize = 3;
    for (refused, submissions, sent_alone) in [(false, 2, 0), (true, 2, 1)] {
        let scene = scene(Storage::Sqlite).await;
        let text = "seven b".repeat(1 << 20);
        let content: String = (0..LINES)
            .map(|number| {
                line(
                    &format!("n{number}"),
                    CHAT,
                    &chat(WIDE, &format!("{number} {text}")),
                ) + "\n"
            })
            .collect();
        if refused {
            scene.upstream.push_for_batches(BatchFault::Malformed);
            scene.upstream.push_for_batches(BatchFault::Refused(403));
            scene.upstream.set_for_model("wide-v1", Reply::words(2));
        }
        let batch = scene.batch(&scene.input(&content).await, CHAT).await;
        let done = scene.until(&batch, "completed").await;
        assert_eq!(done["request_counts"]["completed"], LINES, "{done}");
        files(&scene, &done, LINES).await;
        let mut names: Vec<String> = Vec::new();
        for made in scene.upstream.batches() {
            names.extend(made.requests.iter().map(|(name, _)| name.clone()));
        }
        let handed: Vec<String> = (0..LINES - sent_alone)
            .map(|number| format!("r{number}"))
            .collect();
        assert_eq!(names, handed);
        let seen = (scene.upstream.batch_submissions(), alone(&scene));
        assert_eq!(seen, (submissions, sent_alone));
        scene.finish().await;
    }
}

/// Batches that were already submitted are still fetched from a provider whose `batches` setting
/// changed.
#[tokio::test]
async fn submitted_batches_are_fetched_after_native_batches_are_disabled() {
    let mut scene = scene(Storage::Sqlite).await;
    scene.upstream.set_batch_polls(2);
    let batch = scene.batch(&scene.input(&lines(ONE, 3)).await, CHAT).await;
    eventually("the batch was sent", async || {
        !scene.upstream.batches().is_empty()
    })
    .await;
    let without = config(&scene.upstream).replace("batches = \"native\"", "batches = \"gateway\"");
    scene.gateway.kill().await;
    scene
        .gateway
        .change_config(&(crate::scene::settings(&scene.upstream) + &without));
    scene.gateway.restart().await;
    let done = scene.until(&batch, "completed").await;
    let [answered, _] = files(&scene, &done, 3).await;
    assert_eq!(
        (answered.len(), scene.upstream.batch_submissions(), alone(&scene)),
        (3, 1, 0)
    );
    let batch = scene.batch(&scene.input(&lines(ONE, 2)).await, CHAT).await;
    scene.until(&batch, "completed").await;
    assert_eq!((scene.upstream.batch_submissions(), alone(&scene)), (1, 2));
    scene.finish().await;
}

#[tokio::test]
async fn cancelling_cancels_the_provider_batch_and_charges_completed_lines() {
    for model in [ONE, OTHER] {
        let scene = scene(Storage::Sqlite).await;
        scene.upstream.push_for_batches(BatchFault::Endless);
        let batch = scene.batch(&scene.input(&lines(model, 6)).await, CHAT).await;
        eventually("the batch was sent", async || {
            !scene.upstream.batches().is_empty()
        })
        .await;
        let cancelling = scene.cancel_batch(&batch).await;
        assert_eq!(cancelling.status, 200, "{}", cancelling.text());
        let done = scene.until(&batch, "cancelled").await;
        let [answered, errors] = files(&scene, &done, 6).await;
        assert_eq!((answered.len(), errors.len()), (3, 3));
        for line in errors.values() {
            assert_eq!(line["error"]["code"], "batch_cancelled", "{line}");
        }
        assert!(scene.upstream.batches()[0].is_cancelled);
        scene.finish().await;
    }
}

/// Kills the process while a provider's batch runs, and while the outcome of a submission is
/// unknown.
#[tokio::test]
async fn nothing_is_submitted_twice_despite_crashes() {
    for (storage, fault, model, answered) in [
        (Storage::Sqlite, None, ONE, 6),
        (Storage::Sqlite, None, OTHER, 6),
        (Storage::Postgres, None, ONE, 6),
        (Storage::Sqlite, Some(BatchFault::TakenThenSilent), ONE, 6),
        (Storage::Sqlite, Some(BatchFault::TakenThenSilent), OTHER, 0),
    ] {
        let mut scene = scene(storage).await;
        scene.upstream.set_batch_polls(2);
        fault
            .into_iter()
            .for_each(|fault| scene.upstream.push_for_batches(fault));
        let batch = scene.batch(&scene.input(&lines(model, 6)).await, CHAT).await;
        eventually("the batch was sent", async || {
            let made = scene.upstream.batches();
            made.iter().any(|made| fault.is_some() || made.polls > 0)
        })
        .await;
        scene.gateway.kill().await;
        let before: u32 = scene.upstream.batches().iter().map(|made| made.polls).sum();
        scene.gateway.restart().await;
        if answered > 0 {
            // On PostgreSQL, the lease of the dead process must expire before the batch continues.
            eventually("the batch is polled again", async || {
                let polls: u32 = scene.upstream.batches().iter().map(|made| made.polls).sum();
                polls > before
            })
            .await;
        }
        let done = scene.until(&batch, "completed").await;
        let [output, _] = files(&scene, &done, 6).await;
        let case = format!("{storage:?} {fault:?} {model}");
        assert_eq!(output.len(), answered, "{case}");
        assert_eq!(
            (scene.upstream.batch_submissions(), alone(&scene)),
            (1, 0),
            "{case}"
        );
        scene.finish().await;
    }
}

/// Kills the process while it settles results. Each result is settled once.
#[tokio::test]
async fn results_are_settled_once_despite_crashes() {
    const LINES: usize = 2_000;
    let mut scene = scene(Storage::Sqlite).await;
    let batch = scene.batch(&scene.input(&lines(ONE, LINES)).await, CHAT).await;
    for min_settled in [50, 400, 900] {
        eventually("some are settled", async || {
            let shown = scene.shown(&batch).await;
            shown["request_counts"]["completed"].as_u64() >= Some(min_settled)
        })
        .await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
    }
    let done = scene.until(&batch, "completed").await;
    let [output, _] = files(&scene, &done, LINES).await;
    assert_eq!((output.len(), scene.upstream.batch_submissions()), (LINES, 1));
    scene.finish().await;
}

#[tokio::test]
async fn native_batches_are_refused_for_presets_without_them() {
    let mut scene = Scene::start().await;
    scene.gateway.stop().await;
    for (preset, value, message) in [
        (
            "openai-compatible",
            "native",
            "providers.eastwind: `batches` is not a setting of the preset",
        ),
        ("openai", "always", "`batches` must be `gateway` or `native`"),
    ] {
        let address = scene.upstream.base_url();
        scene.gateway.write_config(&format!(
            "[providers.eastwind]\npreset = \"{preset}\"\nbase_url = \"{address}\"\nbatches = \"{value}\"\n"
        ));
        let checked = scene.gateway.command_line().try_run(&["serve"]).await;
        assert_eq!(checked.code, 2, "{checked:?}");
        assert!(checked.stderr.contains(message), "{checked:?}");
    }
}

#[tokio::test]
async fn a_submitted_batch_reports_its_progress() {
    let scene = scene(Storage::Sqlite).await;
    scene.upstream.push_for_batches(BatchFault::Endless);
    let batch = scene.batch(&scene.input(&lines(ONE, 3)).await, CHAT).await;
    eventually("the batch was sent", async || {
        !scene.upstream.batches().is_empty()
    })
    .await;
    let shown = scene.shown(&batch).await;
    assert_eq!(shown["status"], "in_progress", "{shown}");
    assert_eq!(
        shown["request_counts"],
        json!({"total": 3, "completed": 0, "failed": 0})
    );
    let chat = scene
        .client()
        .send(&Request::json(CHAT, &super::chat(ONE, "now")).key(&scene.key.secret))
        .await;
    assert_eq!(
        chat.status,
        200,
        "interactive requests run as usual: {}",
        chat.text()
    );
    scene.cancel_batch(&batch).await;
    scene.until(&batch, "cancelled").await;
    scene.finish().await;
}
