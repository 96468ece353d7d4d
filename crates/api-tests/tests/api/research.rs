//! Deep research over the built-in corpus and over folders of the operator, without a model.

mod asynchronous;
mod bad_input;
mod budgets;
mod cancel;
mod chat;
mod crash;
mod example;
mod folders;
mod kills;
mod limits;
mod many;
mod models;
mod operators;
mod poison;
mod relays;
mod responses;
mod server;
mod web;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, eventually, nanos};

use crate::scene::{GRANTED, Scene, assert_error, with};

const RESEARCH: &str = "/v1/research";
/// A question on which two documents of the built-in corpus disagree.
const QUESTION: &str = "How many passengers did Orsel Lines carry in 2019?";
const ANSWERS: [&str; 2] = ["912,600", "871,400"];

/// Returns a request to the simulator with the minimal effort.
fn minimal(members: Value) -> Value {
    let plain = json!({"model": "sim/research", "query": QUESTION, "reasoning_effort": "minimal"});
    with(plain, members)
}

impl Scene {
    async fn read(&self, path: &str) -> Response {
        self.client().get(path, &self.key.secret).await
    }

    /// Submits research and returns the id of its job.
    async fn research(&self, body: &Value) -> String {
        let response = self.post(RESEARCH, body).await;
        assert_eq!(response.status, 202, "{}", response.text());
        response.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a job and returns its record.
    async fn researched(&self, id: &str) -> Value {
        let mut job = Value::Null;
        eventually("the research has ended", async || {
            let response = self.read(&format!("/v1/jobs/{id}?wait=20")).await;
            job = response.json();
            response.status == 200 && !["queued", "in_progress"].contains(&job["status"].as_str().unwrap())
        })
        .await;
        job
    }

    /// Continues with a new account, because reads are limited per minute and account.
    async fn use_new_account(&mut self) {
        self.account = self.gateway.account().await;
        self.key = self.gateway.key(&self.account).await;
        self.gateway.grant(&self.account, "1000").await;
    }

    /// Asserts that a job is the only usage of the account, with its cost and its endpoint.
    async fn assert_charged_once(&self, job: &Value, endpoint: &str) {
        let cost = nanos(&job["cost"]);
        let row = self.row(job["request_id"].as_str().unwrap()).await;
        assert_eq!(
            (nanos(&row["cost"]), &row["endpoint"]),
            (cost, &json!(endpoint)),
            "{row}"
        );
        assert_eq!(self.rows().await.len(), 1);
        assert_eq!(self.settled().await.credits, GRANTED - cost);
    }

    /// Asserts that every citation of a report quotes the stored text of its source.
    async fn assert_cited(&self, id: &str, result: &Value) {
        let report: Vec<char> = result["report"].as_str().unwrap().chars().collect();
        let citations = result["citations"].as_array().unwrap();
        assert!(!citations.is_empty(), "{result}");
        for (citation, number) in citations.iter().zip(1..) {
            assert_eq!(citation["id"], number);
            let source = citation["source_id"].as_str().unwrap();
            let path = format!("/v1/research/{id}/sources/{source}");
            let text: Vec<char> = self.read(&path).await.text().chars().collect();
            let place = |name: &str| usize::try_from(citation[name].as_u64().unwrap()).unwrap();
            let (start, end) = (place("start"), place("end"));
            let quote: String = text[start..end].iter().collect();
            assert_eq!(citation["quote"], quote);
            let span = self.read(&format!("{path}?start={start}&end={end}")).await;
            assert_eq!(span.text(), quote);
            assert_eq!(span.header("content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(span.header("x-content-type-options"), Some("nosniff"));
            let mark: String = report[place("report_start")..place("report_end")]
                .iter()
                .collect();
            assert_eq!(mark, format!("[{number}]"));
        }
        for claim in result["claims"].as_array().unwrap() {
            if let (Some(start), Some(end)) = (claim["report_start"].as_u64(), claim["report_end"].as_u64()) {
                let place = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                let text: String = report[place].iter().collect();
                assert_eq!(claim["text"], text);
            }
        }
    }
}

/// A question becomes a report in which every citation is the stored text of its source. The
/// charge is the sum of the parts and at most the quote.
#[tokio::test]
async fn citations_are_the_stored_texts_of_their_sources() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let quote = scene
            .post(
                "/v1/quote",
                &json!({"endpoint": RESEARCH, "request": minimal(json!({}))}),
            )
            .await;
        assert_eq!(quote.status, 200, "{}", quote.text());
        let quote = quote.json();
        let response = scene
            .post(RESEARCH, &minimal(json!({"metadata": {"team": "sea"}})))
            .await;
        assert_eq!(response.status, 202, "{}", response.text());
        assert_eq!(response.header("retry-after"), Some("5"));
        let reference = response.json();
        assert_eq!(reference["type"], "research");
        assert_eq!(response.header("location"), reference["poll_url"].as_str());
        let id = reference["job_id"].as_str().unwrap();
        let job = scene.researched(id).await;
        assert_eq!(job["status"], "completed", "{job}");
        assert_eq!(job["metadata"], json!({"team": "sea"}));
        let result = &job["result"];
        let report = result["report"].as_str().unwrap();
        assert!(ANSWERS.iter().all(|answer| report.contains(answer)), "{report}");
        scene.assert_cited(id, result).await;
        assert!(result["stats"]["verified"].as_u64().unwrap() > 0, "{result}");
        assert!(result["stats"]["searches"].as_u64().unwrap() <= 3);
        assert_eq!(
            (&result["degraded"], &result["stats"]["lost_calls"]),
            (&json!(false), &json!(0))
        );
        let row = scene.row(job["request_id"].as_str().unwrap()).await;
        let cost = nanos(&job["cost"]);
        assert_eq!(nanos(&row["cost"]), cost);
        assert_eq!(row["usage"]["searches"], result["stats"]["searches"]);
        assert!(cost > 0 && cost <= nanos(&quote["most"]), "{cost} {quote}");
        assert_eq!(scene.settled().await.credits, GRANTED - cost);
        let check = scene.finish().await;
        assert!(check.clean);
        assert_eq!((check.usage_rows, check.open_holds), (1, 0));
    }
}

/// The response of a synchronous request is the report itself.
#[tokio::test]
async fn synchronous_requests_return_the_report() {
    let scene = Scene::start().await;
    for (path, body, prefer) in [
        (RESEARCH, minimal(json!({"sync": true})), None),
        (RESEARCH, minimal(json!({"wait": true})), None),
        ("/v1/deep-research", minimal(json!({})), Some("wait=60")),
    ] {
        let mut request = Request::json(path, &body).key(&scene.key.secret);
        if let Some(prefer) = prefer {
            request = request.header("prefer", prefer);
        }
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let report = response.json();
        assert_eq!(report["object"], "research.report");
        assert_eq!(report["model"], "sim/research");
        assert!(nanos(&report["cost"]) > 0, "{report}");
        let id = report["job_id"].as_str().unwrap().to_owned();
        scene.assert_cited(&id, &report).await;
    }
    let failing = minimal(json!({"sync": true, "query": "[[sim error=upstream_error]] What is new?"}));
    assert_error(
        "failed",
        &scene.post(RESEARCH, &failing).await,
        "upstream_error",
        None,
    );
    assert!(scene.finish().await.clean);
}

/// The events of a job show its plan, searches, sources, notes and sections in order, and resume.
#[tokio::test]
async fn events_show_each_step() {
    let scene = Scene::start().await;
    let id = scene.research(&minimal(json!({}))).await;
    scene.researched(&id).await;
    let events = scene.read(&format!("/v1/jobs/{id}/events")).await.text();
    let names: Vec<&str> = events
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    let place = |name: &str| {
        let found = names.iter().position(|one| *one == name);
        found.unwrap_or_else(|| panic!("{name} in {names:?}"))
    };
    let order = [
        "research.plan",
        "research.search",
        "research.source",
        "research.read",
        "research.outline",
        "research.delta",
        "job.completed",
    ];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{names:?}");
    let data: Vec<Value> = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let plan = data
        .iter()
        .find(|event| event["type"] == "research.plan")
        .unwrap();
    assert!(
        plan["queries"]
            .as_array()
            .is_some_and(|queries| !queries.is_empty()),
        "{plan}"
    );
    let middle = plan["sequence"].as_u64().unwrap();
    let request = Request::get(&format!("/v1/jobs/{id}/events"))
        .key(&scene.key.secret)
        .header("last-event-id", middle.to_string());
    let rest = scene.client().send(&request).await.text();
    assert!(!rest.contains("research.plan") && rest.contains("research.delta"));
    assert!(scene.finish().await.clean);
}

/// Documents of the corpus try to instruct the reader. Neither the report nor the queries follow
/// them.
#[tokio::test]
async fn poisoned_documents_do_not_reach_the_report() {
    let scene = Scene::start().await;
    for query in [
        "What do the documents say about previous instructions and the system prompt?",
        "Which link must be opened for the canary?",
    ] {
        let id = scene
            .research(&minimal(json!({"query": query, "reasoning_effort": "low"})))
            .await;
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        let report = job["result"]["report"].as_str().unwrap().to_lowercase();
        for canary in ["canary.example", "ignore previous", "ignore all", "http"] {
            assert!(!report.contains(canary), "{report}");
        }
        let events = scene.read(&format!("/v1/jobs/{id}/events")).await.text();
        let searches = events.lines().filter(|line| line.contains("\"research.search\""));
        assert!(
            searches.into_iter().all(|line| !line.contains("canary.example")),
            "{events}"
        );
    }
    assert!(scene.finish().await.clean);
}

/// A cancelled job is charged for its recorded calls and shows its sources so far.
#[tokio::test]
async fn cancelled_research_shows_and_charges_what_was_done() {
    let scene = Scene::start().await;
    let slow = minimal(json!({"query": format!("[[sim delay=300]] {QUESTION}")}));
    for phase in ["planning", "searching", "reading", "writing"] {
        let id = scene.research(&slow).await;
        eventually("the phase is reached", async || {
            let job = scene.read(&format!("/v1/jobs/{id}")).await.json();
            let reached = job["phase"].as_str().unwrap_or("writing").to_owned();
            let order = [
                "accepted",
                "claimed",
                "planning",
                "searching",
                "reading",
                "reflecting",
                "writing",
                "verifying",
            ];
            let place = |name: &str| order.iter().position(|one| *one == name);
            place(&reached) >= place(phase)
        })
        .await;
        assert_eq!(
            scene
                .post(&format!("/v1/jobs/{id}/cancel"), &json!({}))
                .await
                .status,
            200
        );
        let job = scene.researched(&id).await;
        if job["status"] == "cancelled" {
            assert_eq!(job["result"]["partial"], true, "{job}");
            let row = scene.row(job["request_id"].as_str().unwrap()).await;
            assert_eq!(nanos(&job["cost"]), nanos(&row["cost"]));
        }
    }
    let rows = scene.rows().await;
    let charged: i64 = rows.iter().map(|row| nanos(&row["cost"])).sum();
    assert_eq!(scene.settled().await.credits, GRANTED - charged);
    assert!(scene.finish().await.clean);
}

/// The content policy refuses questions before a hold, and ends reports with a forbidden section.
#[tokio::test]
async fn the_content_policy_applies_to_questions_and_sections() {
    let rules = r#"
[policy.rules.harbour]
apply = "input"
words = ["volcano"]
[policy.rules.ferry]
apply = "output"
words = ["ferry", "ferries"]
"#;
    let scene = Scene::start_with(rules).await;
    let refused = minimal(json!({"query": "Where is the volcano?"}));
    let response = scene.post(RESEARCH, &refused).await;
    assert_error("refused", &response, "content_policy_violation", None);
    scene.nothing_happened().await;
    let id = scene.research(&minimal(json!({}))).await;
    let job = scene.researched(&id).await;
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("output_blocked")),
        "{job}"
    );
    assert!(nanos(&job["cost"]) > 0, "{job}");
    assert!(scene.finish().await.clean);
}
