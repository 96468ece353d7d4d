//! Reports as chat completions, whole and streamed: the same job, hold and charge as any research.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, nanos};

use super::{ANSWERS, QUESTION};
use crate::scene::{GRANTED, Scene, assert_error, with};

const CHAT: &str = "/v1/chat/completions";
/// A question whose report has several sections.
const SEVERAL: &str = "How many passengers did Orsel Lines carry in 2019? When was the harbour rebuilt?";

/// Returns a chat completion request to the simulator with the minimal effort.
fn asking(text: &str, members: Value) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    let plain = json!({"model": "sim/research", "messages": messages, "reasoning_effort": "minimal"});
    with(plain, members)
}

fn chat(members: Value) -> Value {
    asking(QUESTION, members)
}

/// Returns the chunks of a stream, without the final `[DONE]`.
fn chunks(response: &Response) -> Vec<Value> {
    let events = response.events();
    let (last, chunks) = events.split_last().unwrap();
    assert!(last.is_done(), "{}", response.text());
    chunks.iter().map(|event| event.json()).collect()
}

/// Returns the joined texts of a member of the deltas.
fn joined(chunks: &[Value], name: &str) -> String {
    let texts = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"][name].as_str());
    texts.collect()
}

impl Scene {
    /// Returns the ended job whose id is in the header of a response.
    async fn job_of(&self, response: &Response) -> Value {
        let id = response.header("x-job-id").unwrap().to_owned();
        self.researched(&id).await
    }
}

/// Asserts that the annotations cover exactly the citation marks of a report, in order.
pub(super) fn assert_annotated(report: &str, annotations: &[Value], urls: &[Value]) {
    let report: Vec<char> = report.chars().collect();
    let mut at = 0;
    for annotation in annotations {
        let place = |name: &str| usize::try_from(annotation[name].as_u64().unwrap()).unwrap();
        let (start, end) = (place("start_index"), place("end_index"));
        assert!(!report[at..start].contains(&'['), "a mark before {annotation}");
        let mark: String = report[start..end].iter().collect();
        let number: usize = mark[1..mark.len() - 1].parse().unwrap();
        assert_eq!(mark, format!("[{number}]"));
        assert_eq!(annotation["url"], urls[number - 1]);
        assert!(annotation["title"].is_string(), "{annotation}");
        at = end;
    }
    assert!(!report[at..].contains(&'['), "a mark without an annotation");
    assert!(!annotations.is_empty());
}

#[tokio::test]
async fn a_chat_completion_is_the_report_of_its_job() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let sent = chat(json!({"max_tokens": 2000, "user": "u", "metadata": {"team": "sea"}}));
        let quote = json!({"endpoint": CHAT, "request": sent});
        let quote = scene.post("/v1/quote", &quote).await;
        assert_eq!(quote.status, 200, "{}", quote.text());
        let response = scene.post(CHAT, &sent).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let job = scene.job_of(&response).await;
        let (answer, result) = (response.json(), &job["result"]);
        assert_eq!(job["metadata"], json!({"team": "sea"}));
        assert_eq!(
            (&answer["object"], &answer["model"]),
            (&json!("chat.completion"), &json!("sim/research"))
        );
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "stop");
        let report = choice["message"]["content"].as_str().unwrap();
        assert_eq!(choice["message"]["content"], result["report"]);
        assert!(ANSWERS.iter().all(|answer| report.contains(answer)), "{report}");
        let citations = result["citations"].as_array().unwrap();
        let urls: Vec<Value> = citations.iter().map(|citation| citation["url"].clone()).collect();
        assert_eq!(answer["citations"], json!(urls));
        let annotations = choice["message"]["annotations"].as_array().unwrap();
        let annotations: Vec<Value> = annotations
            .iter()
            .map(|annotation| annotation["url_citation"].clone())
            .collect();
        assert_annotated(report, &annotations, &urls);
        let sources = result["sources"].as_array().unwrap();
        let results = answer["search_results"].as_array().unwrap();
        assert_eq!(results.len(), sources.len());
        for (found, source) in results.iter().zip(sources) {
            assert_eq!(
                (&found["title"], &found["url"]),
                (&source["title"], &source["final_url"])
            );
            assert_eq!(
                (&found["date"], &found["source"]),
                (&source["date"], &json!("attachment"))
            );
            assert_eq!(found["snippet"].is_string(), source["cited"] == true, "{found}");
        }
        let usage = &answer["usage"];
        assert_eq!(usage["cost"], job["cost"]);
        assert_eq!(response.header("x-tollgate-cost"), job["cost"].as_str());
        assert_eq!(usage["num_search_queries"], job["usage"]["searches"]);
        assert_eq!(usage["prompt_tokens"], job["usage"]["input_tokens"]);
        assert_eq!(usage["completion_tokens"], job["usage"]["output_tokens"]);
        assert!(nanos(&job["cost"]) <= nanos(&quote.json()["most"]));
        scene.assert_charged_once(&job, CHAT).await;
        let check = scene.finish().await;
        assert!(check.clean);
        assert_eq!((check.usage_rows, check.open_holds), (1, 0));
    }
}

/// The progress comes before the report, the report is that of the job, and the last chunk has the
/// citations. The usage is in the last chunk, in its own chunk, or absent.
#[tokio::test]
async fn streams_show_the_progress_and_then_the_report() {
    let scene = Scene::start().await;
    for (options, has_own_chunk, has_usage) in [
        (Value::Null, false, true),
        (json!({"include_usage": true}), true, true),
        (json!({"include_usage": false}), false, false),
    ] {
        let effort = json!({"stream": true, "stream_options": options, "reasoning_effort": "low"});
        let response = scene.post(CHAT, &asking(SEVERAL, effort)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let job = scene.job_of(&response).await;
        let result = &job["result"];
        let mut chunks = chunks(&response);
        for chunk in &chunks {
            assert_eq!(chunk["object"], "chat.completion.chunk");
            assert_eq!(chunk["id"], chunks[0]["id"]);
            assert_eq!(chunk["model"], "sim/research");
        }
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        if has_own_chunk {
            let usage = chunks.pop().unwrap();
            assert_eq!(usage["choices"], json!([]));
            assert_eq!(usage["usage"]["cost"], job["cost"]);
            assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()));
            assert!(chunks.iter().all(|chunk| chunk.get("usage").is_some()));
        }
        let last = chunks.pop().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
        assert_eq!(last["status"], "COMPLETED");
        let in_last = last["usage"]["num_search_queries"].as_u64();
        assert_eq!(in_last.is_some(), has_usage && !has_own_chunk, "{last}");
        let citations = result["citations"].as_array().unwrap();
        let urls: Vec<&Value> = citations.iter().map(|citation| &citation["url"]).collect();
        assert_eq!(last["citations"], json!(urls));
        assert_eq!(
            last["search_results"].as_array().unwrap().len(),
            result["sources"].as_array().unwrap().len()
        );
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk["choices"][0]["finish_reason"].is_null())
        );
        let is_content = |chunk: &Value| chunk["type"] == "message";
        let places: Vec<bool> = chunks.iter().skip(1).map(is_content).collect();
        assert!(
            places.is_sorted(),
            "the report begins before the end of the progress"
        );
        let (progress, report): (Vec<Value>, Vec<Value>) =
            chunks.into_iter().skip(1).partition(|chunk| !is_content(chunk));
        assert!(progress.iter().all(|chunk| chunk["status"] == "PENDING"));
        assert!(report.len() > 1, "the report has several sections");
        assert_eq!(joined(&report, "content"), result["report"].as_str().unwrap());
        let steps = joined(&progress, "reasoning_content");
        for step in [
            "Questions: ",
            "Searched for ",
            "Opened ",
            "Read s1: ",
            "Outline: ",
        ] {
            assert!(steps.contains(step), "{step} in {steps}");
        }
        let found: usize = progress
            .iter()
            .map(|chunk| chunk["search_results"].as_array().unwrap().len())
            .sum();
        assert_eq!(found, result["sources"].as_array().unwrap().len());
    }
    let rows = scene.rows().await;
    let charged: i64 = rows.iter().map(|row| nanos(&row["cost"])).sum();
    assert_eq!(rows.len(), 3);
    assert_eq!(scene.settled().await.credits, GRANTED - charged);
    assert!(scene.finish().await.clean);
}

/// A report without findings has the same text in the stream and in the result.
#[tokio::test]
async fn a_report_without_findings_is_streamed() {
    let scene = Scene::start().await;
    let sent = asking("Zyxwv qponm?", json!({"stream": true}));
    let response = scene.post(CHAT, &sent).await;
    let job = scene.job_of(&response).await;
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(job["result"]["citations"], json!([]), "{job}");
    let chunks = chunks(&response);
    assert_eq!(
        joined(&chunks, "content"),
        job["result"]["report"].as_str().unwrap()
    );
    assert!(scene.finish().await.clean);
}

/// A caller who disconnects does not cancel the job, and is charged once.
#[tokio::test]
async fn leaving_does_not_cancel_the_research() {
    for is_streamed in [true, false] {
        let scene = Scene::start().await;
        let sent = asking(
            &format!("[[sim delay=200]] {QUESTION}"),
            json!({"stream": is_streamed}),
        );
        let request = Request::json(CHAT, &sent).key(&scene.key.secret);
        let mut id = String::new();
        if is_streamed {
            let mut answer = scene.client().open(&request).await;
            id = answer.head.header("x-job-id").unwrap().to_owned();
            assert!(answer.next_chunk().await.is_some());
            answer.into_connection().reset();
        } else {
            let mut connection = scene.client().connect().await;
            connection.write(&request.bytes()).await.unwrap();
            tollgate_testkit::gateway::eventually("the job exists", async || {
                let jobs = scene.read("/v1/jobs").await.json();
                id = jobs["data"][0]["id"].as_str().unwrap_or_default().to_owned();
                !id.is_empty()
            })
            .await;
            connection.reset();
        }
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        scene.assert_charged_once(&job, CHAT).await;
        assert!(scene.finish().await.clean);
    }
}

/// A failed or cancelled job ends the stream with its error and without `[DONE]`.
#[tokio::test]
async fn failures_end_the_stream_with_their_error() {
    let scene = Scene::start().await;
    let failing = "[[sim error=upstream_error]] What is new?";
    let whole = scene.post(CHAT, &asking(failing, json!({}))).await;
    assert_error("failed", &whole, "upstream_error", None);
    assert!(whole.header("x-job-id").is_some());
    assert_eq!(whole.header("x-should-retry"), Some("false"));
    let streamed = scene.post(CHAT, &asking(failing, json!({"stream": true}))).await;
    assert_eq!(streamed.status, 200);
    let events = streamed.events();
    let last = events.last().unwrap().json();
    assert_eq!(last["error"]["code"], "upstream_error", "{last}");
    assert!(events.iter().all(|event| !event.is_done()));
    assert_eq!(scene.settled().await.credits, GRANTED);
    let slow = asking(&format!("[[sim delay=1000]] {QUESTION}"), json!({"stream": true}));
    let answer = scene.open_research(&slow).await;
    let id = answer.head.header("x-job-id").unwrap().to_owned();
    let cancelled = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200);
    let rest = answer.rest().await;
    let last = rest.events().last().unwrap().json();
    assert_eq!(last["error"]["code"], "conflict", "{last}");
    scene.settled().await;
    assert!(scene.finish().await.clean);
}

impl Scene {
    async fn open_research(&self, body: &Value) -> tollgate_testkit::gateway::http::Answer {
        let request = Request::json(CHAT, body).key(&self.key.secret);
        self.client().open(&request).await
    }
}

/// A forbidden section ends the answer with `content_filter`; the report is charged.
#[tokio::test]
async fn a_blocked_section_is_filtered_and_charged() {
    let rules = r#"
[policy.rules.ferry]
apply = "output"
words = ["ferry", "ferries"]
"#;
    let scene = Scene::start_with(rules).await;
    let whole = scene.post(CHAT, &chat(json!({}))).await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    let answer = whole.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(answer["choices"][0]["message"]["content"], "");
    assert!(nanos(&answer["usage"]["cost"]) > 0, "{answer}");
    let streamed = scene.post(CHAT, &chat(json!({"stream": true}))).await;
    let chunks = chunks(&streamed);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "content_filter", "{last}");
    assert!(last["citations"].is_null(), "{last}");
    assert!(nanos(&last["usage"]["cost"]) > 0, "{last}");
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn invalid_requests_name_their_parameter() {
    let scene = Scene::start().await;
    let unsupported = "unsupported_parameter";
    for (members, code, param) in [
        (
            json!({"messages": null}),
            "missing_required_parameter",
            "messages",
        ),
        (json!({"messages": []}), "invalid_parameter", "messages"),
        (
            json!({"messages": [{"role": "assistant", "content": "x"}]}),
            "invalid_parameter",
            "messages[0].role",
        ),
        (json!({"query": "Why?"}), "unknown_parameter", "query"),
        (json!({"sync": true}), "unknown_parameter", "sync"),
        (json!({"n": 2}), unsupported, "n"),
        (json!({"tools": []}), unsupported, "tools"),
        (
            json!({"response_format": {"type": "text"}}),
            unsupported,
            "response_format",
        ),
        (json!({"temperature": 1}), unsupported, "temperature"),
        (json!({"top_p": 1}), unsupported, "top_p"),
        (json!({"seed": 1}), unsupported, "seed"),
        (json!({"max_tokens": 255}), "invalid_parameter", "max_tokens"),
        (
            json!({"max_completion_tokens": 255}),
            "invalid_parameter",
            "max_completion_tokens",
        ),
        (
            json!({"max_tokens": 256, "max_completion_tokens": 257}),
            "invalid_parameter",
            "max_tokens",
        ),
        (
            json!({"max_tokens": 1_000_000}),
            "parameter_out_of_range",
            "max_tokens",
        ),
        (json!({"stream": "yes"}), "invalid_parameter", "stream"),
        (
            json!({"stream_options": {}}),
            "invalid_parameter",
            "stream_options",
        ),
        (
            json!({"stream": true, "stream_options": {"include_usage": 1}}),
            "invalid_parameter",
            "stream_options.include_usage",
        ),
        (
            json!({"reasoning_effort": "extreme"}),
            "invalid_parameter",
            "reasoning_effort",
        ),
        (
            json!({"search_domain_filter": vec!["example.com"; 21]}),
            "invalid_parameter",
            "search_domain_filter",
        ),
        (
            json!({"max_cost": "0.000001"}),
            "parameter_out_of_range",
            "max_cost",
        ),
    ] {
        let response = scene.post(CHAT, &chat(members.clone())).await;
        assert_error(&members.to_string(), &response, code, Some(param));
    }
    for members in [json!({"n": 1}), json!({"max_tokens": 256})] {
        let response = scene.post(CHAT, &chat(members.clone())).await;
        assert_eq!(response.status, 200, "{members} {}", response.text());
    }
    assert!(scene.finish().await.clean);
}

/// A request that the balance does not cover creates no job.
#[tokio::test]
async fn an_uncovered_report_writes_nothing() {
    let scene = Scene::start().await;
    let account = scene.gateway.account().await;
    let key = scene.gateway.key(&account).await.secret;
    for members in [json!({}), json!({"stream": true})] {
        let response = scene.client().post_json(CHAT, &key, &chat(members)).await;
        assert_error("no credits", &response, "insufficient_credits", None);
        assert!(response.header("x-job-id").is_none());
    }
    let jobs = scene.client().get("/v1/jobs", &key).await.json();
    assert_eq!(jobs["data"], json!([]));
    let usage = scene.gateway.usage(&key, "").await;
    assert_eq!(usage["data"], json!([]));
    assert!(scene.finish().await.clean);
}

/// The endpoints of other formats refuse research models; the model list shows those that accept
/// them.
#[tokio::test]
async fn other_formats_refuse_research_models() {
    let scene = Scene::start().await;
    let messages = json!([{"role": "user", "content": "Why?"}]);
    for (path, body) in [
        (
            "/v1/messages",
            json!({"model": "sim/research", "max_tokens": 300, "messages": messages}),
        ),
        (
            "/v1/completions",
            json!({"model": "sim/research", "prompt": "Why?"}),
        ),
        (
            "/v1/models/sim/research:generateContent",
            json!({"contents": [{"role": "user", "parts": [{"text": "Why?"}]}]}),
        ),
        (
            "/v1/responses/input_tokens",
            json!({"model": "sim/research", "input": "Why?"}),
        ),
    ] {
        let response = scene.post(path, &body).await;
        assert!(
            response.status == 400 && response.text().contains("unsupported_endpoint"),
            "{path} {} {}",
            response.status,
            response.text()
        );
    }
    let record = scene.read("/v1/models/sim/research").await.json();
    assert_eq!(
        record["endpoints"],
        json!([
            "/v1/research",
            CHAT,
            "/v1/responses",
            "/v1/async/chat/completions"
        ])
    );
    scene.nothing_happened().await;
    assert!(scene.finish().await.clean);
}

/// A key needs the scope of research to use a research model on a path of another scope.
#[tokio::test]
async fn keys_need_the_scope_of_research() {
    let scene = Scene::start().await;
    let limited = async |scopes: &[&str]| {
        let mut arguments = vec!["keys", "create", "--account", &scene.account];
        for scope in scopes {
            arguments.extend(["--scope", scope]);
        }
        let created = scene.gateway.command_line().run(&arguments).await;
        let key = created["key"].as_str().unwrap().to_owned();
        scene.client().post_json(CHAT, &key, &chat(json!({}))).await
    };
    for scopes in [&["text"][..], &["research"]] {
        let refused = limited(scopes).await;
        assert_error("one scope", &refused, "permission_denied", Some("scope"));
    }
    assert_eq!(limited(&["text", "research"]).await.status, 200);
    assert_eq!(scene.rows().await.len(), 1);
    assert!(scene.finish().await.clean);
}
