//! `/v1/batches`: files of requests. Each line runs once, for 65 % of the list price.

mod crash;
mod ends;
mod messages;
mod native;
mod operators;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, eventually, nanos};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::files::{FILES, form};
use crate::scene::{CHAT, Classes, GRANTED, MODEL, PLAIN, PRICES, Scene, assert_error};

const BATCHES: &str = "/v1/batches";
const EMBEDDINGS: &str = "/v1/embeddings";
/// An embedding model that costs three nano-credits per token.
const VECTORS: &str = r#"
[models."acme/vectors"]
type = "embedding"
targets = ["northwind/vectors-v1"]
prices = { input = "0.003" }
limits = { context_window = 8192 }
"#;

/// Returns a request line of an input file.
fn line(custom_id: &str, url: &str, body: &Value) -> String {
    json!({"custom_id": custom_id, "method": "POST", "url": url, "body": body}).to_string()
}

fn chat(model: &str, text: &str) -> Value {
    json!({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": text}]})
}

/// Returns chat request lines to a model, with the ids `r0`, `r1` and so on.
fn lines(model: &str, count: usize) -> String {
    let line = |number: usize| {
        line(
            &format!("r{number}"),
            CHAT,
            &chat(model, &format!("number {number}")),
        ) + "\n"
    };
    (0..count).map(line).collect()
}

/// Returns 65 % of a list price in nano-credits, rounded up.
fn at_65(nanos: i64) -> i64 {
    (nanos * 65 + 99) / 100
}

impl Scene {
    async fn input(&self, content: &str) -> String {
        self.file("input.jsonl", content.as_bytes(), "batch").await
    }

    async fn create(&self, body: &Value) -> Response {
        self.client().post_json(BATCHES, &self.key.secret, body).await
    }

    /// Creates a batch of an input file and returns it.
    async fn batch(&self, input: &str, endpoint: &str) -> Value {
        let body = json!({"input_file_id": input, "endpoint": endpoint, "completion_window": "24h"});
        let response = self.create(&body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    async fn shown(&self, batch: &Value) -> Value {
        let path = format!("{BATCHES}/{}", batch["id"].as_str().unwrap());
        self.ask("GET", &path, &[]).await.json()
    }

    async fn until(&self, batch: &Value, status: &str) -> Value {
        let mut seen = Value::Null;
        eventually(&format!("the batch is {status}"), async || {
            seen = self.shown(batch).await;
            seen["status"] == status
        })
        .await;
        seen
    }

    async fn cancel_batch(&self, batch: &Value) -> Response {
        let path = format!("{BATCHES}/{}/cancel", batch["id"].as_str().unwrap());
        self.ask("POST", &path, &[]).await
    }

    /// Returns the result lines of a file by their `custom_id`.
    async fn results(&self, file: &Value) -> BTreeMap<String, Value> {
        let Some(id) = file.as_str() else {
            return BTreeMap::new();
        };
        let content = self.ask("GET", &format!("{FILES}/{id}/content"), &[]).await;
        assert_eq!(content.status, 200);
        let mut found = BTreeMap::new();
        for text in content.text().lines() {
            let line: Value = serde_json::from_str(text).unwrap();
            let name = line["custom_id"].as_str().unwrap().to_owned();
            assert!(found.insert(name, line).is_none(), "each request once");
        }
        found
    }
}

#[tokio::test]
async fn a_batch_completes_and_costs_65_percent() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let input = scene.input(&lines(MODEL, 5)).await;
        let created = scene
            .create(
                &json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h",
                "metadata": {"a": "b"}, "output_expires_after": {"anchor": "created_at", "seconds": 3600}}),
            )
            .await;
        let batch = created.json();
        assert_eq!(created.status, 200, "{batch}");
        let initial = ["validating", "in_progress"].map(|status| json!(status));
        assert!(initial.contains(&batch["status"]), "{batch}");
        let done = scene.until(&batch, "completed").await;
        assert_eq!(
            done["request_counts"],
            json!({"total": 5, "completed": 5, "failed": 0})
        );
        for name in ["in_progress_at", "finalizing_at", "completed_at", "expires_at"] {
            assert!(done[name].is_i64(), "{name}: {done}");
        }
        for name in [
            "failed_at",
            "expired_at",
            "cancelled_at",
            "errors",
            "error_file_id",
        ] {
            assert_eq!(done[name], Value::Null, "{name}");
        }
        assert_eq!(
            done["expires_at"].as_i64().unwrap() - done["created_at"].as_i64().unwrap(),
            24 * 3600
        );
        assert_eq!(
            (&done["model"], &done["metadata"]),
            (&json!(MODEL), &json!({"a": "b"}))
        );

        // As a job, the batch has no result.
        let job = done["id"].as_str().unwrap().replace("batch_", "job_");
        let job = scene.ask("GET", &format!("/v1/jobs/{job}"), &[]).await;
        assert_eq!(
            (job.status, &job.json()["type"]),
            (200, &json!("batch")),
            "{}",
            job.text()
        );
        assert_eq!(
            (&job.json()["status"], &job.json()["result"]),
            (&json!("completed"), &Value::Null)
        );

        let results = scene.results(&done["output_file_id"]).await;
        assert_eq!(results.len(), 5);
        let mut cost = 0;
        for (number, (name, line)) in results.iter().enumerate() {
            assert_eq!(*name, format!("r{number}"));
            let response = &line["response"];
            assert_eq!(
                (&response["status_code"], &line["error"]),
                (&json!(200), &Value::Null)
            );
            let usage = &response["body"]["usage"];
            let count = |name: &str| usage[name].as_i64().unwrap();
            let classes = Classes {
                input: count("prompt_tokens"),
                output: count("completion_tokens"),
                ..Classes::default()
            };
            assert_eq!(nanos(&usage["cost"]), at_65(classes.at(PRICES)), "{usage}");
            cost += at_65(classes.at(PRICES));
        }
        let output = format!("{FILES}/{}", done["output_file_id"].as_str().unwrap());
        let output = scene.ask("GET", &output, &[]).await.json();
        assert_eq!(output["purpose"], "batch_output");
        assert_eq!(
            output["expires_at"].as_i64().unwrap() - output["created_at"].as_i64().unwrap(),
            3600
        );
        assert_eq!(nanos(&done["cost"]), cost);
        assert_eq!(scene.settled().await.credits, GRANTED - cost);
        let rows = scene.rows().await;
        assert_eq!(rows.len(), 1, "one row for the whole: {rows:?}");
        assert_eq!(
            (nanos(&rows[0]["cost"]), &rows[0]["endpoint"]),
            (cost, &json!(BATCHES))
        );
        assert_eq!(scene.upstream.request_count(), 5);
        scene.finish().await;
    }
}

#[tokio::test]
async fn embedding_batches_accept_byte_order_marks_and_blank_lines() {
    let scene = Scene::start_with(VECTORS).await;
    let body = |text: &str| json!({"model": "acme/vectors", "input": text});
    let content = [
        "\u{feff}".to_owned() + &line("a", EMBEDDINGS, &body("red")) + "\r\n",
        "\r\n  \n".to_owned(),
        line("b", EMBEDDINGS, &body("blue")),
    ]
    .concat();
    let batch = scene.batch(&scene.input(&content).await, EMBEDDINGS).await;
    let done = scene.until(&batch, "completed").await;
    let results = scene.results(&done["output_file_id"]).await;
    assert_eq!(results.keys().collect::<Vec<_>>(), ["a", "b"]);
    let mut cost = 0;
    for line in results.values() {
        let body = &line["response"]["body"];
        assert!(body["data"][0]["embedding"].is_array(), "{body}");
        let tokens = body["usage"]["prompt_tokens"].as_i64().unwrap();
        assert_eq!(
            nanos(&body["usage"]["cost"]),
            at_65(3 * tokens),
            "rounded up once"
        );
        cost += at_65(3 * tokens);
    }
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    scene.finish().await;
}

#[tokio::test]
async fn failed_lines_are_in_the_error_file_and_cost_nothing() {
    let scene = Scene::start().await;
    scene
        .upstream
        .set_for_model("plain-v1", Reply::body(500, "application/json", "{}"));
    let batch = scene.batch(&scene.input(&lines(PLAIN, 2)).await, CHAT).await;
    let done = scene.until(&batch, "completed").await;
    assert_eq!(
        done["request_counts"],
        json!({"total": 2, "completed": 0, "failed": 2})
    );
    assert_eq!(done["output_file_id"], Value::Null);
    let errors = scene.results(&done["error_file_id"]).await;
    assert_eq!(errors.len(), 2);
    for line in errors.values() {
        assert_eq!(line["response"]["status_code"], 502, "{line}");
        assert_eq!(line["response"]["body"]["error"]["code"], "upstream_error");
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn an_invalid_input_file_fails_with_line_numbers() {
    let scene = Scene::start_with(&format!("[limits]\nrpm = 1000\n{VECTORS}")).await;
    let good = line("a", CHAT, &chat(PLAIN, "x"));
    let other = |custom_id: &str, body: Value| line(custom_id, CHAT, &body);
    let streamed = {
        let mut body = chat(PLAIN, "x");
        body["stream"] = json!(true);
        other("b", body)
    };
    let named = {
        let part = json!({"type": "file", "file": {"file_id": "file-1"}});
        let mut body = chat(PLAIN, "x");
        body["messages"] = json!([{"role": "user", "content": [part]}]);
        other("b", body)
    };
    let long = other("b", chat(PLAIN, &"x".repeat(10 << 20)));
    for (what, second, code, param) in [
        ("no JSON", "{".to_owned(), "invalid_json", Value::Null),
        (
            "binary",
            "\u{0}\u{1}\u{2}".to_owned(),
            "invalid_json",
            Value::Null,
        ),
        ("twice", good.clone(), "duplicate_custom_id", json!("custom_id")),
        (
            "elsewhere",
            line("b", EMBEDDINGS, &json!({})),
            "mismatched_endpoint",
            json!("url"),
        ),
        (
            "two models",
            other("b", chat(MODEL, "x")),
            "mismatched_model",
            json!("body.model"),
        ),
        (
            "no model",
            other("b", chat("none", "x")),
            "model_not_found",
            json!("body.model"),
        ),
        (
            "vectors",
            other("b", chat("acme/vectors", "x")),
            "unsupported_endpoint",
            json!("body.model"),
        ),
        (
            "a report",
            other("b", chat("sim/research", "x")),
            "unsupported_endpoint",
            json!("body.model"),
        ),
        ("a stream", streamed, "invalid_parameter", json!("body.stream")),
        ("a file", named, "unsupported_parameter", Value::Null),
        (
            "no messages",
            other("b", json!({"model": PLAIN})),
            "missing_required_parameter",
            json!("body.messages"),
        ),
        ("too long", long, "line_too_long", Value::Null),
    ] {
        let input = scene.input(&format!("{good}\n\n{second}\n")).await;
        let batch = scene.batch(&input, CHAT).await;
        let failed = scene.until(&batch, "failed").await;
        let error = &failed["errors"]["data"][0];
        assert_eq!(
            (&error["code"], &error["line"]),
            (&json!(code), &json!(3)),
            "{what}: {failed}"
        );
        if !param.is_null() {
            assert_eq!(error["param"], param, "{what}");
        }
        assert!(
            failed["failed_at"].is_i64() && failed["in_progress_at"].is_null(),
            "{failed}"
        );
    }
    let input = scene.input("\n \r\n").await;
    let failed = scene.until(&scene.batch(&input, CHAT).await, "failed").await;
    assert_eq!(failed["errors"]["data"][0]["code"], "empty_file");
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert_eq!(scene.upstream.request_count(), 0);
    scene.finish().await;
}

#[tokio::test]
async fn a_batch_is_limited_to_fifty_thousand_requests() {
    let scene = Scene::start().await;
    let input = scene.input(&lines(PLAIN, 50_001)).await;
    let batch = scene.batch(&input, CHAT).await;
    let failed = scene.until(&batch, "failed").await;
    let error = &failed["errors"]["data"][0];
    assert_eq!(
        (&error["code"], &error["line"]),
        (&json!("too_many_requests"), &Value::Null)
    );
    assert_eq!(failed["request_counts"]["total"], 50_001);
    let input = scene.input(&"{}\n\n".repeat(150)).await;
    let failed = scene.until(&scene.batch(&input, CHAT).await, "failed").await;
    assert_eq!(failed["errors"]["data"].as_array().unwrap().len(), 100);
    assert_eq!(failed["request_counts"]["total"], 150, "of the whole file");
    scene.finish().await;
}

#[tokio::test]
async fn invalid_batch_requests_are_refused() {
    let scene = Scene::start().await;
    let input = scene.input(&lines(PLAIN, 1)).await;
    let notes = scene.file("a.txt", b"x", "user_data").await;
    let whole = json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h"});
    for (name, value, code, param) in [
        ("input_file_id", json!("file-none"), "not_found", "input_file_id"),
        (
            "input_file_id",
            json!(notes),
            "invalid_parameter",
            "input_file_id",
        ),
        ("endpoint", json!("/v1/messages"), "invalid_parameter", "endpoint"),
        (
            "completion_window",
            json!("1h"),
            "invalid_parameter",
            "completion_window",
        ),
        (
            "webhook_url",
            json!("ftp://a.example"),
            "invalid_parameter",
            "webhook_url",
        ),
        ("model", json!(PLAIN), "unknown_parameter", "model"),
    ] {
        let mut body = whole.clone();
        body[name] = value;
        assert_error(name, &scene.create(&body).await, code, Some(param));
    }
    let other = scene.gateway.account().await;
    let key = scene.gateway.key(&other).await;
    let theirs = scene.client().post_json(BATCHES, &key.secret, &whole).await;
    assert_error("another's file", &theirs, "not_found", Some("input_file_id"));
    scene.nothing_happened().await;
    let batch = scene.batch(&input, CHAT).await;
    let path = format!("{BATCHES}/{}", batch["id"].as_str().unwrap());
    for (method, path) in [("GET", path.clone()), ("POST", format!("{path}/cancel"))] {
        let request = Request::new(method, &path).key(&key.secret);
        let response = scene.client().send(&request).await;
        assert_error(method, &response, "not_found", Some("batch_id"));
    }
    let list = scene.client().send(&Request::get(BATCHES).key(&key.secret)).await;
    assert_eq!(list.json()["data"], json!([]));
    scene.until(&batch, "completed").await;
    scene.finish().await;
}

#[tokio::test]
async fn a_batch_without_enough_credits_is_refused_as_a_whole() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let poor = scene.gateway.account().await;
        let key = scene.gateway.key(&poor).await;
        // The credits cover two lines, but not all 30.
        let one = lines(MODEL, 1).len() as i64;
        scene
            .gateway
            .grant(&poor, &crate::scene::credits(2 * (one * 1_500 + 50 * 3_000)))
            .await;
        let text = lines(MODEL, 30);
        for (what, content) in [("no funds", text.clone()), ("and with faults", text + "{}\n")] {
            let fields = [
                ("purpose", None, &b"batch"[..]),
                ("file", Some("i.jsonl"), content.as_bytes()),
            ];
            let file = scene.client().send(&form(&fields).key(&key.secret)).await.json();
            let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
            let response = scene.client().post_json(BATCHES, &key.secret, &body).await;
            assert_error(what, &response, "insufficient_credits", None);
        }
        let list = scene.client().send(&Request::get(BATCHES).key(&key.secret)).await;
        assert_eq!(list.json()["data"], json!([]));
        let usage = scene.gateway.usage(&key.secret, "").await;
        assert_eq!(
            (&usage["data"], &usage["balance"]["held"]),
            (&json!([]), &json!("0"))
        );
        assert_eq!(scene.upstream.request_count(), 0);
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_cancelled_batch_delivers_completed_lines() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    for _ in 0..40 {
        scene.upstream.push(Reply::words(2).hold_head(&gate));
    }
    let input = scene.input(&lines(PLAIN, 40)).await;
    let batch = scene.batch(&input, CHAT).await;
    eventually("the concurrency limit is reached", async || {
        scene.upstream.request_count() == 16
    })
    .await;
    // The input file of a running batch cannot be deleted.
    let deleted = scene.ask("DELETE", &format!("{FILES}/{input}"), &[]).await;
    assert_error("in use", &deleted, "conflict", Some("file_id"));
    let cancelling = scene.cancel_batch(&batch).await.json();
    assert_eq!(cancelling["status"], "cancelling", "{cancelling}");
    let asked_at = &cancelling["cancelling_at"];
    assert!(asked_at.is_i64(), "{cancelling}");
    let again = scene.cancel_batch(&batch).await.json();
    assert_eq!(&again["cancelling_at"], asked_at);
    gate.open();
    let cancelled = scene.until(&batch, "cancelled").await;
    assert!(cancelled["cancelled_at"].is_i64(), "{cancelled}");
    assert_eq!(&cancelled["cancelling_at"], asked_at);
    let done = scene.results(&cancelled["output_file_id"]).await;
    let errors = scene.results(&cancelled["error_file_id"]).await;
    assert_eq!(done.len() + errors.len(), 40);
    assert_eq!(done.len() as u64, scene.upstream.request_count());
    assert!(done.len() < 40);
    for line in errors.values() {
        assert_eq!(
            (&line["response"], &line["error"]["code"]),
            (&Value::Null, &json!("batch_cancelled"))
        );
    }
    let again = scene.cancel_batch(&batch).await;
    assert_eq!(
        (again.status, &again.json()["status"]),
        (200, &json!("cancelled"))
    );
    let balance = scene.settled().await;
    assert_eq!(balance.credits, GRANTED - nanos(&cancelled["cost"]));
    assert_eq!(
        scene.ask("DELETE", &format!("{FILES}/{input}"), &[]).await.status,
        200
    );

    let input = scene.input(&lines(PLAIN, 1)).await;
    let batch = scene.batch(&input, CHAT).await;
    scene.until(&batch, "completed").await;
    assert_error(
        "too late",
        &scene.cancel_batch(&batch).await,
        "conflict",
        Some("batch_id"),
    );
    scene.finish().await;
}

/// A batch that is cancelled during its last requests delivers all of their results and charges for
/// them.
#[tokio::test]
async fn a_batch_cancelled_during_its_last_requests_ends_as_cancelled() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let gate = Gate::new();
        for _ in 0..3 {
            scene.upstream.push(Reply::words(2).hold_head(&gate));
        }
        let input = scene.input(&lines(PLAIN, 3)).await;
        let batch = scene.batch(&input, CHAT).await;
        eventually("all run", async || scene.upstream.request_count() == 3).await;
        let cancelling = scene.cancel_batch(&batch).await.json();
        assert_eq!(cancelling["status"], "cancelling", "{cancelling}");
        assert!(cancelling["cancelling_at"].is_i64(), "{cancelling}");
        gate.open();
        let cancelled = scene.until(&batch, "cancelled").await;
        assert_eq!(cancelled["cancelling_at"], cancelling["cancelling_at"]);
        assert_eq!(
            cancelled["request_counts"],
            json!({"total": 3, "completed": 3, "failed": 0})
        );
        assert_eq!(scene.results(&cancelled["output_file_id"]).await.len(), 3);
        let cost = nanos(&cancelled["cost"]);
        assert!(cost > 0, "{cancelled}");
        assert_eq!(scene.settled().await.credits, GRANTED - cost);
        scene.finish().await;
    }
}

/// Unused credits of completed lines are released while other lines run, and the receipt of the
/// batch adds up.
#[tokio::test]
async fn unused_credits_are_released_while_a_batch_runs() {
    const LINES: usize = 32;
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let (first, last) = (Gate::new(), Gate::new());
        for number in 1..=LINES {
            let gate = if number < LINES { &first } else { &last };
            scene.upstream.push(Reply::words(2).hold_head(gate));
        }
        let input = scene.input(&lines(PLAIN, LINES)).await;
        let batch = scene.batch(&input, CHAT).await;
        eventually("the concurrency limit is reached", async || {
            scene.upstream.request_count() == 16
        })
        .await;
        let whole = scene.gateway.balance(&scene.account).await;
        assert_eq!(whole.credits + whole.held, GRANTED);
        first.open();
        eventually("all but one have ended", async || {
            scene.shown(&batch).await["request_counts"]["completed"] == LINES - 1
        })
        .await;
        let mut left = whole;
        eventually("most credits are released", async || {
            left = scene.gateway.balance(&scene.account).await;
            left.held < whole.held / 2
        })
        .await;
        assert_eq!(left.credits + left.held, GRANTED, "nothing is charged yet");
        let each = whole.held / i64::try_from(LINES).unwrap();
        assert!(left.held >= each, "the last one is covered: {left:?}");
        last.open();
        let done = scene.until(&batch, "completed").await;
        let cost = nanos(&done["cost"]);
        assert_eq!(scene.settled().await.credits, GRANTED - cost);

        let row = scene.rows().await.remove(0);
        let request = row["request_id"].as_str().unwrap().to_owned();
        let command_line = scene.gateway.command_line();
        let receipt = command_line.run(&["ledger", "receipt", &request]).await;
        assert_eq!(receipt["matches"], true, "{receipt}");
        assert_eq!(receipt["requests"]["count"], LINES);
        let amounts = ["cost", "charge", "paid"].map(|name| nanos(&receipt[name]));
        assert_eq!(amounts, [cost; 3]);
        assert_eq!(nanos(&receipt["held_credits"]), whole.held);
        let transfers = receipt["transfers"].as_array().unwrap();
        let early = transfers.iter().filter(|transfer| {
            let leg = transfer["leg"].as_str().unwrap();
            leg.starts_with("release_early_")
        });
        assert!((1..=16).contains(&early.count()), "{receipt}");
        let place = |transfer: &Value| transfer["sequence"].as_i64().unwrap();
        assert!(transfers.is_sorted_by_key(place), "{receipt}");
        let shown = command_line.try_run(&["ledger", "receipt", &request]).await;
        let text = format!("started requests: {LINES}, each ⌈its sum × 65 ÷ 100000000⌉: {cost}");
        assert!(shown.stdout.contains(&text), "{}", shown.stdout);
        assert_eq!(command_line.run(&["ledger", "audit"]).await["clean"], true);
        scene.finish().await;
    }
}

#[tokio::test]
async fn batches_are_listed_page_by_page() {
    let scene = Scene::start().await;
    let input = scene.input(&lines(PLAIN, 1)).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let batch = scene.batch(&input, CHAT).await;
        scene.until(&batch, "completed").await;
        all.insert(0, batch["id"].as_str().unwrap().to_owned());
    }
    let page = scene.ask("GET", &format!("{BATCHES}?limit=2"), &[]).await.json();
    assert_eq!(
        (&page["first_id"], &page["last_id"], &page["has_more"]),
        (&json!(all[0]), &json!(all[1]), &json!(true))
    );
    let page = scene
        .ask("GET", &format!("{BATCHES}?after={}", all[1]), &[])
        .await
        .json();
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["data"][0]["id"]),
        (1, &json!(all[2]))
    );
    for (query, code, param) in [
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=101", "invalid_parameter", "limit"),
        ("after=x", "invalid_parameter", "after"),
    ] {
        let response = scene.ask("GET", &format!("{BATCHES}?{query}"), &[]).await;
        assert_error(query, &response, code, Some(param));
    }
    scene.finish().await;
}
