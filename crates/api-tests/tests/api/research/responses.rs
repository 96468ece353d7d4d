//! Reports as responses of the Responses API: whole, streamed, in the background, and later.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, eventually, nanos};

use super::chat::assert_annotated;
use super::{ANSWERS, QUESTION};
use crate::scene::{Scene, assert_error, with};

const RESPONSES: &str = "/v1/responses";

/// Returns a request to the simulator with the minimal effort.
fn asking(input: Value, members: Value) -> Value {
    let plain = json!({"model": "sim/research", "input": input, "reasoning": {"effort": "minimal"}});
    with(plain, members)
}

fn plain(members: Value) -> Value {
    asking(json!(QUESTION), members)
}

/// Returns the events of a stream and asserts that they are numbered from `first` without a gap.
fn numbered(response: &Response, first: u64) -> Vec<Value> {
    let text = response.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    for (event, number) in events.iter().zip(first..) {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    let kind = format!("response.{kind}");
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Returns the id of the job of a response.
fn job_id(response: &Value) -> String {
    response["id"].as_str().unwrap().replace("resp_", "job_")
}

/// Asserts that the output of a response shows the searches and the report of its job.
fn assert_shows(response: &Value, job: &Value) {
    assert_eq!(response["status"], "completed", "{response}");
    let output = response["output"].as_array().unwrap();
    let (message, searches) = output.split_last().unwrap();
    assert_eq!(
        searches.len() as u64,
        job["result"]["stats"]["searches"].as_u64().unwrap()
    );
    for search in searches {
        assert_eq!(
            (&search["type"], &search["status"], &search["action"]["type"]),
            (&json!("web_search_call"), &json!("completed"), &json!("search"))
        );
        assert_eq!(search["action"]["queries"], json!([search["action"]["query"]]));
        let sources = search["action"]["sources"].as_array().unwrap();
        assert!(!sources.is_empty() && sources[0]["url"].is_string(), "{search}");
    }
    let part = &message["content"][0];
    assert_eq!(part["text"], job["result"]["report"]);
    let citations = job["result"]["citations"].as_array().unwrap();
    let urls: Vec<Value> = citations.iter().map(|citation| citation["url"].clone()).collect();
    let annotations = part["annotations"].as_array().unwrap();
    assert!(
        annotations
            .iter()
            .all(|annotation| annotation["type"] == "url_citation")
    );
    assert_annotated(part["text"].as_str().unwrap(), annotations, &urls);
    assert_eq!(response["usage"]["cost"], job["cost"]);
    assert_eq!(response["usage"]["input_tokens"], job["usage"]["input_tokens"]);
    assert!(response["completed_at"].is_i64() && response["error"].is_null());
}

impl Scene {
    async fn response_of(&self, id: &str) -> Value {
        self.read(&format!("{RESPONSES}/{id}")).await.json()
    }
}

#[tokio::test]
async fn a_response_is_the_report_of_its_job() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let sent = plain(json!({
            "tools": [{"type": "web_search_preview"}],
            "max_output_tokens": 2000,
            "metadata": {"team": "sea"},
            "include": ["web_search_call.action.sources"],
        }));
        let quote = json!({"endpoint": RESPONSES, "request": sent});
        let quote = scene.post("/v1/quote", &quote).await;
        assert_eq!(quote.status, 200, "{}", quote.text());
        let answer = scene.post(RESPONSES, &sent).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let response = answer.json();
        let job = scene.researched(&job_id(&response)).await;
        assert_shows(&response, &job);
        assert_eq!(answer.header("x-tollgate-cost"), job["cost"].as_str());
        for (name, value) in [
            ("tools", json!([{"type": "web_search_preview"}])),
            ("max_output_tokens", json!(2000)),
            ("metadata", json!({"team": "sea"})),
            ("background", json!(false)),
            ("store", json!(true)),
        ] {
            assert_eq!(response[name], value, "{name}");
        }
        assert_eq!(response["reasoning"]["effort"], "minimal");
        let report = job["result"]["report"].as_str().unwrap();
        assert!(ANSWERS.iter().all(|answer| report.contains(answer)), "{report}");
        let id = response["id"].as_str().unwrap();
        assert_eq!(scene.response_of(id).await, response);
        scene.assert_charged_once(&job, RESPONSES).await;
        let check = scene.finish().await;
        assert!(check.clean);
        assert_eq!((check.usage_rows, check.open_holds), (1, 0));
    }
}

/// A background response can be polled, followed and followed again from any event.
#[tokio::test]
async fn a_background_response_is_polled_and_followed() {
    let scene = Scene::start().await;
    let input = json!([
        {"role": "developer", "content": "Answer in English."},
        {"role": "user", "content": [{"type": "input_text", "text": format!("[[sim delay=100]] {QUESTION}")}]},
    ]);
    let created = scene
        .post(RESPONSES, &asking(input, json!({"background": true})))
        .await;
    assert_eq!(created.status, 200, "{}", created.text());
    let created = created.json();
    assert!(["queued", "in_progress"].contains(&created["status"].as_str().unwrap()));
    assert_eq!(
        (&created["output"], &created["background"]),
        (&json!([]), &json!(true))
    );
    let id = created["id"].as_str().unwrap();
    let path = format!("{RESPONSES}/{id}?stream=true");
    let live = scene.read(&path).await;
    let events = numbered(&live, 0);
    let mut response = Value::Null;
    eventually("the response has ended", async || {
        response = scene.response_of(id).await;
        !["queued", "in_progress"].contains(&response["status"].as_str().unwrap())
    })
    .await;
    let job = scene.researched(&job_id(&response)).await;
    assert_shows(&response, &job);
    assert_eq!(events.last().unwrap()["response"], response);
    assert_eq!(scene.read(&path).await.text(), live.text());
    let middle = events.len() as u64 / 2;
    let rest = scene.read(&format!("{path}&starting_after={middle}")).await;
    assert_eq!(numbered(&rest, middle + 1), events[middle as usize + 1..]);
    let items = scene
        .read(&format!("{RESPONSES}/{id}/input_items?order=asc"))
        .await
        .json();
    let roles: Vec<&Value> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["role"])
        .collect();
    assert_eq!(roles, [&json!("system"), &json!("user")], "{items}");
    scene.assert_charged_once(&job, RESPONSES).await;
    let deleted = Request::new("DELETE", &format!("{RESPONSES}/{id}")).key(&scene.key.secret);
    let deleted = scene.client().send(&deleted).await;
    assert_eq!(deleted.json()["deleted"], true, "{}", deleted.text());
    assert_error(
        "deleted",
        &scene.read(&format!("{RESPONSES}/{id}")).await,
        "not_found",
        None,
    );
    assert!(scene.finish().await.clean);
}

/// The events of a stream are complete: each item and part begins and ends, and the text is the
/// report.
#[tokio::test]
async fn streams_have_the_events_of_each_item() {
    let scene = Scene::start().await;
    for effort in ["minimal", "low"] {
        let sent = plain(json!({"stream": true, "reasoning": {"effort": effort}}));
        let answer = scene.post(RESPONSES, &sent).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let events = numbered(&answer, 0);
        let kinds: Vec<&str> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds[..2], ["response.created", "response.queued"]);
        assert_eq!(of_kind(&events, "in_progress").len(), 1);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed");
        let response = &last["response"];
        let job = scene.researched(&job_id(response)).await;
        assert_shows(response, &job);
        let output = response["output"].as_array().unwrap();
        let done = of_kind(&events, "output_item.done");
        let items: Vec<&Value> = done.iter().map(|event| &event["item"]).collect();
        assert_eq!(items, output.iter().collect::<Vec<_>>());
        let added = of_kind(&events, "output_item.added");
        for ((event, item), index) in added.iter().zip(output).zip(0..) {
            assert_eq!(
                (&event["item"]["id"], &event["output_index"]),
                (&item["id"], &json!(index))
            );
        }
        for stage in ["in_progress", "searching", "completed"] {
            let events = of_kind(&events, &format!("web_search_call.{stage}"));
            assert_eq!(events.len(), output.len() - 1, "{stage}");
        }
        let deltas = of_kind(&events, "output_text.delta");
        let text: String = deltas
            .iter()
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        let part = &output.last().unwrap()["content"][0];
        assert_eq!(part["text"], text);
        assert_eq!(of_kind(&events, "output_text.done")[0]["text"], text);
        assert_eq!(&of_kind(&events, "content_part.done")[0]["part"], part);
        let annotations = of_kind(&events, "output_text.annotation.added");
        let annotations: Vec<&Value> = annotations.iter().map(|event| &event["annotation"]).collect();
        assert_eq!(
            annotations,
            part["annotations"].as_array().unwrap().iter().collect::<Vec<_>>()
        );
    }
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

/// Failed, cancelled and blocked reports end as responses of other models do.
#[tokio::test]
async fn other_ends_have_their_status() {
    let rules = r#"
[policy.rules.ferry]
apply = "output"
words = ["ferry", "ferries"]
"#;
    let scene = Scene::start_with(rules).await;
    let blocked = scene.post(RESPONSES, &plain(json!({}))).await;
    assert_eq!(blocked.status, 200, "{}", blocked.text());
    let blocked = blocked.json();
    assert_eq!(blocked["status"], "incomplete", "{blocked}");
    assert_eq!(blocked["incomplete_details"]["reason"], "content_filter");
    assert!(nanos(&blocked["usage"]["cost"]) > 0, "{blocked}");
    let streamed = scene.post(RESPONSES, &plain(json!({"stream": true}))).await;
    assert_eq!(
        numbered(&streamed, 0).last().unwrap()["type"],
        "response.incomplete"
    );
    let failing = json!("[[sim error=upstream_error]] What is new?");
    let whole = scene.post(RESPONSES, &asking(failing.clone(), json!({}))).await;
    assert_error("failed", &whole, "upstream_error", None);
    let streamed = scene
        .post(RESPONSES, &asking(failing, json!({"stream": true})))
        .await;
    let events = numbered(&streamed, 0);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed", "{last}");
    assert_eq!(last["response"]["error"]["code"], "server_error", "{last}");
    let slow = json!(format!("[[sim delay=1000]] {QUESTION}"));
    let created = scene
        .post(RESPONSES, &asking(slow, json!({"background": true})))
        .await
        .json();
    let path = format!("{RESPONSES}/{}", created["id"].as_str().unwrap());
    let cancelled = scene.post(&format!("{path}/cancel"), &json!({})).await;
    assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.text());
    let again = scene.post(&format!("{path}/cancel"), &json!({})).await;
    assert_eq!(again.json()["status"], "cancelled", "{}", again.text());
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn a_completed_response_cannot_be_cancelled() {
    let scene = Scene::start().await;
    let response = scene.post(RESPONSES, &plain(json!({}))).await.json();
    let path = format!("{RESPONSES}/{}/cancel", response["id"].as_str().unwrap());
    let refused = scene.post(&path, &json!({})).await;
    assert_error("completed", &refused, "invalid_parameter", Some("id"));
    assert!(scene.finish().await.clean);
}

/// The number of tool calls limits searches and pages together, and a tool limits the sites.
#[tokio::test]
async fn tools_limit_the_research() {
    let scene = Scene::start().await;
    let sent = plain(json!({"max_tool_calls": 4, "reasoning": {"effort": "high"}}));
    let response = scene.post(RESPONSES, &sent).await.json();
    let stats = &scene.researched(&job_id(&response)).await["result"]["stats"];
    let calls = stats["searches"].as_u64().unwrap() + stats["pages"].as_u64().unwrap();
    assert!((2..=4).contains(&calls), "{stats}");
    let elsewhere = json!([{"type": "web_search", "filters": {"allowed_domains": ["elsewhere.example"]}}]);
    let response = scene
        .post(RESPONSES, &plain(json!({"tools": elsewhere})))
        .await
        .json();
    let job = scene.researched(&job_id(&response)).await;
    assert_eq!(job["result"]["sources"], json!([]), "{job}");
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn invalid_requests_name_their_parameter() {
    let scene = Scene::start().await;
    let unsupported = "unsupported_parameter";
    for (members, code, param) in [
        (json!({"input": null}), "missing_required_parameter", "input"),
        (json!({"input": ""}), "invalid_parameter", "input"),
        (json!({"input": []}), "invalid_parameter", "input"),
        (
            json!({"input": [{"role": "assistant", "content": "x"}]}),
            "invalid_parameter",
            "input[0].role",
        ),
        (
            json!({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}),
            "invalid_parameter",
            "input[0].type",
        ),
        (json!({"tools": [{"type": "mcp"}]}), unsupported, "tools[0]"),
        (
            json!({"tools": [{"type": "web_search"}, {"type": "function", "name": "f"}]}),
            unsupported,
            "tools[1]",
        ),
        (json!({"temperature": 1}), unsupported, "temperature"),
        (
            json!({"previous_response_id": "resp_1"}),
            unsupported,
            "previous_response_id",
        ),
        (json!({"store": false}), unsupported, "store"),
        (
            json!({"text": {"format": {"type": "json_object"}}}),
            unsupported,
            "text.format",
        ),
        (
            json!({"text": {"verbosity": "low"}}),
            unsupported,
            "text.verbosity",
        ),
        (
            json!({"max_tool_calls": 0}),
            "invalid_parameter",
            "max_tool_calls",
        ),
        (
            json!({"max_tool_calls": 1}),
            "parameter_out_of_range",
            "max_tool_calls",
        ),
        (
            json!({"max_output_tokens": 255}),
            "invalid_parameter",
            "max_output_tokens",
        ),
        (
            json!({"reasoning": {"effort": "extreme"}}),
            "invalid_parameter",
            "reasoning.effort",
        ),
        (
            json!({"reasoning": {"depth": 1}}),
            "unknown_parameter",
            "reasoning.depth",
        ),
        (
            json!({"stream_options": {}}),
            "invalid_parameter",
            "stream_options",
        ),
        (json!({"colour": "red"}), "unknown_parameter", "colour"),
    ] {
        let response = scene.post(RESPONSES, &plain(members.clone())).await;
        assert_error(&members.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    assert!(scene.finish().await.clean);
}

/// A response of another account does not exist, and a request without credits creates none.
#[tokio::test]
async fn responses_of_other_accounts_do_not_exist() {
    let scene = Scene::start().await;
    let response = scene.post(RESPONSES, &plain(json!({}))).await.json();
    let path = format!("{RESPONSES}/{}", response["id"].as_str().unwrap());
    let account = scene.gateway.account().await;
    let key = scene.gateway.key(&account).await.secret;
    for request in [
        Request::get(&path),
        Request::get(&format!("{path}?stream=true")),
        Request::get(&format!("{path}/input_items")),
        Request::new("DELETE", &path),
        Request::json(&format!("{path}/cancel"), &json!({})),
    ] {
        let answer = scene.client().send(&request.key(&key)).await;
        assert_error("foreign", &answer, "not_found", None);
    }
    for members in [json!({}), json!({"background": true}), json!({"stream": true})] {
        let answer = scene.client().post_json(RESPONSES, &key, &plain(members)).await;
        assert_error("no credits", &answer, "insufficient_credits", None);
    }
    let jobs = scene.client().get("/v1/jobs", &key).await.json();
    assert_eq!(jobs["data"], json!([]));
    assert!(scene.finish().await.clean);
}
