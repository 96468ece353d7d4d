//! Research jobs as Perplexity's asynchronous chat completions.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Storage, eventually, nanos};

use super::{ANSWERS, QUESTION, minimal};
use crate::scene::{GRANTED, Scene, assert_error, with};

const ASYNC: &str = "/v1/async/chat/completions";

/// Returns a request with the minimal effort.
fn asking(text: &str, members: Value) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    let request = json!({"model": "sim/research", "messages": messages, "reasoning_effort": "minimal"});
    json!({"request": with(request, members)})
}

impl Scene {
    /// Waits for the end of an asynchronous chat completion and returns it.
    async fn completed(&self, id: &str) -> Value {
        let mut found = Value::Null;
        eventually("the chat completion has ended", async || {
            let response = self.read(&format!("{ASYNC}/{id}")).await;
            found = response.json();
            ["COMPLETED", "FAILED"].contains(&found["status"].as_str().unwrap())
        })
        .await;
        found
    }
}

#[tokio::test]
async fn a_completion_is_the_report_of_its_job() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let slow = asking(
            &format!("[[sim delay=100]] {QUESTION}"),
            json!({"max_tokens": 2000}),
        );
        let response = scene.post(ASYNC, &slow).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let created = response.json();
        assert!(["CREATED", "IN_PROGRESS"].contains(&created["status"].as_str().unwrap()));
        assert_eq!(created["model"], "sim/research");
        assert!(
            created["created_at"].is_i64() && created["response"].is_null(),
            "{created}"
        );
        let id = created["id"].as_str().unwrap();
        let done = scene.completed(id).await;
        assert_eq!(done["status"], "COMPLETED", "{done}");
        assert!(done["started_at"].is_i64() && done["completed_at"].is_i64());
        assert!(done["failed_at"].is_null() && done["error_message"].is_null());
        let job = scene.researched(id).await;
        let (response, result) = (&done["response"], &job["result"]);
        let report = response["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(report, result["report"].as_str().unwrap());
        assert!(ANSWERS.iter().any(|answer| report.contains(answer)));
        let citations = result["citations"].as_array().unwrap();
        assert_eq!(response["citations"].as_array().unwrap().len(), citations.len());
        assert!(!response["search_results"].as_array().unwrap().is_empty());
        let usage = &response["usage"];
        assert_eq!(usage["num_search_queries"], job["usage"]["searches"]);
        let cost: f64 = job["cost"].as_str().unwrap().parse().unwrap();
        assert_eq!(usage["cost"]["total_cost"].as_f64(), Some(cost));
        let parts = [
            "input_tokens_cost",
            "output_tokens_cost",
            "reasoning_tokens_cost",
            "search_queries_cost",
        ];
        let sum: f64 = parts
            .iter()
            .map(|part| usage["cost"][part].as_f64().unwrap())
            .sum();
        assert!((sum - cost).abs() < 1e-7, "{usage}");
        let row = scene.row(job["request_id"].as_str().unwrap()).await;
        assert_eq!(row["endpoint"], ASYNC);
        assert_eq!(scene.settled().await.credits, GRANTED - nanos(&job["cost"]));
        let check = scene.finish().await;
        assert!(check.clean);
        assert_eq!((check.usage_rows, check.open_holds), (1, 0));
    }
}

/// All ends without a report are failures.
#[tokio::test]
async fn other_ends_are_failures() {
    let scene = Scene::start().await;
    let failing = asking("[[sim error=upstream_error]] What is new?", json!({}));
    let failed = scene.post(ASYNC, &failing).await.json();
    let failed = scene.completed(failed["id"].as_str().unwrap()).await;
    let slow = asking(&format!("[[sim delay=2000]] {QUESTION}"), json!({}));
    let cancelled = scene.post(ASYNC, &slow).await.json();
    let id = cancelled["id"].as_str().unwrap();
    let response = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(response.status, 200);
    let cancelled = scene.completed(id).await;
    for record in [failed, cancelled] {
        assert_eq!(record["status"], "FAILED", "{record}");
        assert!(
            record["failed_at"].is_i64() && record["completed_at"].is_null(),
            "{record}"
        );
        assert!(
            record["error_message"].is_string() && record["response"].is_null(),
            "{record}"
        );
    }
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

/// The list has the research jobs of all endpoints, newest first, in pages.
#[tokio::test]
async fn lists_have_pages() {
    let scene = Scene::start().await;
    let mut ids = vec![scene.research(&minimal(json!({}))).await];
    for _ in 0..3 {
        let created = scene.post(ASYNC, &asking(QUESTION, json!({}))).await.json();
        ids.insert(0, created["id"].as_str().unwrap().to_owned());
    }
    let listed = |page: &Value| -> Vec<String> {
        let requests = page["requests"].as_array().unwrap().iter();
        requests
            .map(|request| request["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let whole = scene.read(ASYNC).await.json();
    assert_eq!(listed(&whole), ids);
    assert!(whole["next_token"].is_null(), "{whole}");
    let first = scene.read(&format!("{ASYNC}?limit=2")).await.json();
    assert_eq!(listed(&first), ids[..2]);
    let token = first["next_token"].as_str().unwrap();
    let second = scene
        .read(&format!("{ASYNC}?limit=2&next_token={token}"))
        .await
        .json();
    assert_eq!(listed(&second), ids[2..]);
    assert!(second["next_token"].is_null(), "{second}");
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("next_token=x", "next_token"),
    ] {
        let response = scene.read(&format!("{ASYNC}?{query}")).await;
        assert_error(query, &response, "invalid_parameter", Some(param));
    }
    assert_eq!(scene.read(&format!("{ASYNC}?limit=100")).await.status, 200);
    for id in &ids {
        scene.researched(id).await;
    }
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

/// A repeated key creates one job, whether it is in the body or in the header.
#[tokio::test]
async fn a_repeated_key_creates_one_job() {
    let scene = Scene::start().await;
    let keyed = with(asking(QUESTION, json!({})), json!({"idempotency_key": "first"}));
    let created = scene.post(ASYNC, &keyed).await;
    assert_eq!(created.status, 200, "{}", created.text());
    let repeated = scene.post(ASYNC, &keyed).await;
    assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
    assert_eq!(repeated.text(), created.text());
    let other = with(asking("Why?", json!({})), json!({"idempotency_key": "first"}));
    let response = scene.post(ASYNC, &other).await;
    assert_error(
        "reused",
        &response,
        "idempotency_key_reused",
        Some("Idempotency-Key"),
    );
    let send = async |key: &str| {
        let request = Request::json(ASYNC, &asking(QUESTION, json!({})))
            .key(&scene.key.secret)
            .header("idempotency-key", key);
        scene.client().send(&request).await
    };
    let with_header = send("second").await;
    assert_eq!(send("second").await.text(), with_header.text());
    for key in [json!(""), json!(7), json!("k".repeat(256)), json!("ä")] {
        let invalid = with(asking(QUESTION, json!({})), json!({"idempotency_key": key}));
        let response = scene.post(ASYNC, &invalid).await;
        assert_error("key", &response, "invalid_parameter", Some("idempotency_key"));
    }
    let ids: Vec<Value> = [&created, &with_header]
        .iter()
        .map(|response| response.json()["id"].clone())
        .collect();
    for id in &ids {
        scene.researched(id.as_str().unwrap()).await;
    }
    assert_eq!(scene.rows().await.len(), 2);
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn invalid_requests_name_their_parameter() {
    let scene = Scene::start().await;
    for (members, code, param) in [
        (json!({"request": null}), "missing_required_parameter", "request"),
        (json!({"request": []}), "invalid_parameter", "request"),
        (json!({"webhook": "x"}), "unknown_parameter", "webhook"),
    ] {
        let body = with(asking(QUESTION, json!({})), members.clone());
        let response = scene.post(ASYNC, &body).await;
        assert_error(&members.to_string(), &response, code, Some(param));
    }
    for (members, code, param) in [
        (
            json!({"model": null}),
            "missing_required_parameter",
            "request.model",
        ),
        (
            json!({"model": "sim/unknown"}),
            "model_not_found",
            "request.model",
        ),
        (
            json!({"model": "sim/chat"}),
            "unsupported_endpoint",
            "request.model",
        ),
        (json!({"stream": true}), "unsupported_parameter", "request.stream"),
        (json!({"n": 2}), "unsupported_parameter", "request.n"),
        (json!({"colour": "red"}), "unknown_parameter", "request.colour"),
        (
            json!({"max_tokens": 1_000_000}),
            "parameter_out_of_range",
            "request.max_tokens",
        ),
    ] {
        let response = scene.post(ASYNC, &asking(QUESTION, members.clone())).await;
        assert_error(&members.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    assert!(scene.finish().await.clean);
}

/// A job of another account does not exist.
#[tokio::test]
async fn jobs_of_other_accounts_do_not_exist() {
    let scene = Scene::start().await;
    let created = scene.post(ASYNC, &asking(QUESTION, json!({}))).await.json();
    let id = created["id"].as_str().unwrap();
    let account = scene.gateway.account().await;
    let key = scene.gateway.key(&account).await.secret;
    for id in [id, "job_0", "resp_0"] {
        let response = scene.client().get(&format!("{ASYNC}/{id}"), &key).await;
        assert_error(id, &response, "not_found", None);
    }
    let listed = scene.client().get(ASYNC, &key).await.json();
    assert_eq!(listed["requests"], json!([]));
    let response = scene
        .client()
        .post_json(ASYNC, &key, &asking(QUESTION, json!({})))
        .await;
    assert_error("no credits", &response, "insufficient_credits", None);
    let listed = scene.client().get(ASYNC, &key).await.json();
    assert_eq!(listed["requests"], json!([]));
    scene.researched(id).await;
    assert!(scene.finish().await.clean);
}
