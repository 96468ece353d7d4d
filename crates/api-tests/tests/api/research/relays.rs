//! Research models of providers: the provider writes the report, and the gateway checks its
//! citations against the cited pages.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually, nanos};
use tollgate_testkit::upstream::{CitedSentence, FakeUpstream, MediaFault, Reply};

use super::{RESEARCH, Scene};
use crate::scene::{CHAT, GRANTED, PROVIDER_KEY, assert_error, with};

const OPENAI: &str = "openai/o4-mini-deep-research";
const PERPLEXITY: &str = "perplexity/sonar-deep-research";
const GEMINI: &str = "google/deep-research-preview-04-2026";
const QUESTION: &str = "When does the ferry to Lorn sail?";
const PAGE: &str = "<article><h1>The ferry</h1><p>The harbour of Lorn is old and has a lighthouse. Ferries \
    to Lorn sail on 212 days of the year. The fare is 5 euros for each passenger.</p></article>";

/// The providers of research models, with the pages that their reports cite.
struct Providers {
    upstream: FakeUpstream,
    _site: FakeUpstream,
    settings: String,
}

impl Providers {
    async fn start() -> Self {
        let (upstream, site) = (FakeUpstream::start().await, FakeUpstream::start().await);
        upstream.set_api_key(PROVIDER_KEY);
        upstream.set_media_polls(0);
        let address = site.address();
        site.set_judge(|request| match request.path.as_str() {
            "/robots.txt" => Some(Reply::error(404, "not_found", "none")),
            "/ferry" => Some(Reply::body(200, "text/html; charset=utf-8", PAGE)),
            "/gone" => Some(Reply::error(404, "not_found", "none")),
            _ => None,
        });
        let url = |path: &str| format!("http://{address}{path}");
        upstream.set_report(vec![
            CitedSentence::new(
                "Ferries to Lorn sail on 212 days of the year.",
                &url("/ferry"),
                "Ferries",
            ),
            CitedSentence::new(
                "The fare is 7 euros for each passenger.",
                &url("/ferry"),
                "Ferries",
            ),
            CitedSentence::new("Éole blows often.", &url("/gone"), "Wind"),
            CitedSentence::new("The weather is mild.", "http://169.254.169.254/latest", "Weather"),
            CitedSentence::new("Nothing else is known.", "", ""),
        ]);
        let address = upstream.address();
        let block = |name: &str, path: &str| {
            format!(
                "[providers.{name}]\nbase_url = \"http://{address}{path}\"\napi_key_env = \"PROVIDER_KEY\"\n"
            )
        };
        let settings = [
            format!("[egress]\nallow = [\"{}\"]\n", site.address()),
            block("openai", "/v1"),
            block("perplexity", ""),
            block("gemini", "/v1beta"),
        ];
        Self {
            settings: settings.concat(),
            upstream,
            _site: site,
        }
    }

    async fn scene(&self) -> Scene {
        Scene::start_with(&self.settings).await
    }

    fn assert_submitted_once(&self) {
        assert_eq!(
            (self.upstream.media_submissions(), self.upstream.made().len()),
            (1, 1)
        );
    }
}

fn question(model: &str, members: Value) -> Value {
    with(json!({"model": model, "query": QUESTION}), members)
}

/// Prices of a report, in nano-credits: 3,000 or 5,000 tokens of input, 200 of output, 1,000 of
/// reasoning and two or three searches.
fn cost(model: &str) -> i64 {
    match model {
        OPENAI => 3_000 * 2_000 + 2_000 * 500 + 1_200 * 8_000 + 2 * 10_000_000,
        PERPLEXITY => 5_000 * 2_000 + 200 * 8_000 + 1_000 * 3_000 + 3 * 5_000_000,
        _ => 5_000 * 2_000 + 1_200 * 12_000 + 3 * 35_000_000,
    }
}

#[tokio::test]
async fn reports_are_charged_once_and_their_citations_are_checked() {
    for (model, storage) in [
        (OPENAI, Storage::Sqlite),
        (PERPLEXITY, Storage::Postgres),
        (GEMINI, Storage::Sqlite),
    ] {
        let providers = Providers::start().await;
        let scene = Scene::start_on(storage, &providers.settings).await;
        let quote = json!({"endpoint": RESEARCH, "request": question(model, json!({}))});
        let quote = scene.post("/v1/quote", &quote).await.json();
        let id = scene.research(&question(model, json!({}))).await;
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        providers.assert_submitted_once();
        let result = &job["result"];
        let report = result["report"].as_str().unwrap();
        assert!(
            report.starts_with("## Findings\n\nFerries to Lorn sail on 212 days of the year."),
            "{report}"
        );
        for foreign in ["http", "<think>", "cite:", "]("] {
            assert!(!report.contains(foreign), "{model}: {report}");
        }
        let citations = result["citations"].as_array().unwrap();
        let verified: Vec<&Value> = citations.iter().map(|citation| &citation["verified"]).collect();
        assert_eq!(verified, [true, false, false, false], "{model}: {result}");
        let source = citations[0]["source_id"].as_str().unwrap();
        let text = scene
            .read(&format!("/v1/research/{id}/sources/{source}"))
            .await
            .text();
        let place = |name: &str| usize::try_from(citations[0][name].as_u64().unwrap()).unwrap();
        let quoted: String = text.chars().collect::<Vec<_>>()[place("start")..place("end")]
            .iter()
            .collect();
        assert_eq!(citations[0]["quote"], quoted);
        assert_eq!(quoted, "Ferries to Lorn sail on 212 days of the year.");
        for citation in &citations[1..] {
            assert!(
                citation["quote"].is_null() && citation["start"].is_null(),
                "{citation}"
            );
            assert!(report.contains(&format!("[{}]", citation["id"])), "{report}");
        }
        let unread = citations[2]["source_id"].as_str().unwrap();
        let missing = scene.read(&format!("/v1/research/{id}/sources/{unread}")).await;
        assert_error("an unread source", &missing, "not_found", Some("source_id"));
        let statuses: Vec<&Value> = result["claims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|claim| &claim["status"])
            .collect();
        assert_eq!(statuses, ["verified", "unverified", "unverified", "unverified"]);
        assert_eq!(nanos(&job["cost"]), cost(model), "{model}");
        assert!(cost(model) < nanos(&quote["most"]), "{quote}");
        scene.assert_charged_once(&job, RESEARCH).await;
        let events = scene.read(&format!("/v1/jobs/{id}/events")).await.text();
        assert!(
            events.contains("research.delta") && events.contains("research.source"),
            "{events}"
        );
        assert!(scene.finish().await.clean);
    }
}

#[tokio::test]
async fn other_endpoints_show_the_report_of_a_provider() {
    let providers = Providers::start().await;
    let scene = providers.scene().await;
    let chat = json!({"model": OPENAI, "messages": [{"role": "user", "content": QUESTION}]});
    let completion = scene.post(CHAT, &chat).await.json();
    let message = &completion["choices"][0]["message"];
    let content: Vec<char> = message["content"].as_str().unwrap().chars().collect();
    let annotations = message["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), 4, "{completion}");
    for (annotation, number) in annotations.iter().zip(1..) {
        let place = &annotation["url_citation"];
        let at = |name: &str| usize::try_from(place[name].as_u64().unwrap()).unwrap();
        let mark: String = content[at("start_index")..at("end_index")].iter().collect();
        assert_eq!(mark, format!("[{number}]"));
    }
    assert_eq!(completion["usage"]["completion_tokens"], 1_200);

    let streamed = scene
        .post(CHAT, &with(chat, json!({"stream": true})))
        .await
        .text();
    assert!(
        streamed.contains("Searched for") && streamed.contains("Ferries to Lorn"),
        "{streamed}"
    );
    assert!(streamed.ends_with("data: [DONE]\n\n"), "{streamed}");

    let body = json!({"model": OPENAI, "input": QUESTION, "tools": [{"type": "web_search_preview"}]});
    let response = scene.post("/v1/responses", &body).await.json();
    assert_eq!(response["status"], "completed", "{response}");
    let items: Vec<&Value> = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(items, ["web_search_call", "web_search_call", "message"]);

    let verbatim = question(OPENAI, json!({"disable_formatting": true, "sync": true}));
    let report = scene.post(RESEARCH, &verbatim).await.json();
    assert!(
        report["report"].as_str().unwrap().contains("([Ferries](http"),
        "{report}"
    );
    assert_eq!(report["raw"]["object"], "response");
    assert_eq!(report["citations"][0]["verified"], true);
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn failed_reports_are_free_and_not_submitted_again() {
    let providers = Providers::start().await;
    let scene = providers.scene().await;
    let mut submissions = 0;
    for (model, fault, code) in [
        (OPENAI, MediaFault::ServerError, "upstream_error"),
        (OPENAI, MediaFault::Cut, "upstream_error"),
        (OPENAI, MediaFault::Refused, "content_policy_violation"),
        (OPENAI, MediaFault::Blocked, "content_policy_violation"),
        (OPENAI, MediaFault::Lost, "upstream_error"),
        (PERPLEXITY, MediaFault::Fails("no".to_owned()), "upstream_error"),
        (GEMINI, MediaFault::BrokenJson, "upstream_error"),
        (GEMINI, MediaFault::Blocked, "upstream_error"),
    ] {
        providers.upstream.push_for_media(fault.clone());
        let id = scene.research(&question(model, json!({}))).await;
        let job = scene.researched(&id).await;
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{fault:?} {job}"
        );
        assert_eq!(job["cost"], "0");
        submissions += 1;
        assert_eq!(providers.upstream.media_submissions(), submissions, "{fault:?}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn cancellations_reach_the_provider() {
    let providers = Providers::start().await;
    let scene = providers.scene().await;
    providers.upstream.push_for_media(MediaFault::Endless);
    let id = scene.research(&question(OPENAI, json!({}))).await;
    eventually("the report is polled", async || {
        providers
            .upstream
            .made()
            .first()
            .is_some_and(|making| making.polls > 0)
    })
    .await;
    let cancelled = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    assert!(cancelled.status < 300, "{}", cancelled.text());
    let job = scene.researched(&id).await;
    assert_eq!(
        (&job["status"], &job["cost"]),
        (&json!("cancelled"), &json!("0")),
        "{job}"
    );
    assert!(providers.upstream.made()[0].is_cancelled);
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert!(scene.finish().await.clean);
}

/// A submission without an answer is sent again only where the provider supports idempotency keys.
/// An accepted one is polled by the next process.
#[tokio::test]
async fn reports_survive_the_death_of_their_process() {
    for (model, fault, status) in [
        (PERPLEXITY, Some(MediaFault::Hang), "completed"),
        (OPENAI, Some(MediaFault::Hang), "failed"),
        (OPENAI, None, "completed"),
    ] {
        let providers = Providers::start().await;
        let mut scene = providers.scene().await;
        fault
            .iter()
            .for_each(|fault| providers.upstream.push_for_media(fault.clone()));
        providers.upstream.set_media_polls(2);
        let id = scene.research(&question(model, json!({}))).await;
        eventually("the provider has the job", async || {
            let made = providers.upstream.made();
            made.first()
                .is_some_and(|making| fault.is_some() || making.polls > 0)
        })
        .await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], status, "{model} {fault:?} {job}");
        assert_eq!(providers.upstream.made().len(), 1, "{model} {fault:?}");
        let charged = if status == "completed" { cost(model) } else { 0 };
        assert_eq!(nanos(&job["cost"]), charged);
        assert_eq!(scene.settled().await.credits, GRANTED - charged);
        assert!(scene.finish().await.clean);
    }
}

#[tokio::test]
async fn requests_that_a_provider_cannot_serve_cost_nothing() {
    let providers = Providers::start().await;
    let scene = providers.scene().await;
    for (model, members, code, param) in [
        (
            PERPLEXITY,
            json!({"max_pages": 3}),
            "unsupported_parameter",
            "max_pages",
        ),
        (
            GEMINI,
            json!({"search_domain_filter": "a.example"}),
            "unsupported_parameter",
            "search_domain_filter",
        ),
        (
            GEMINI,
            json!({"reasoning_effort": "low"}),
            "parameter_out_of_range",
            "reasoning_effort",
        ),
        (
            GEMINI,
            json!({"max_output_tokens": 900}),
            "unsupported_parameter",
            "max_output_tokens",
        ),
        (
            OPENAI,
            json!({"search_recency_filter": "day"}),
            "unsupported_parameter",
            "search_recency_filter",
        ),
        (
            OPENAI,
            json!({"search_domain_filter": "-a.example"}),
            "unsupported_parameter",
            "search_domain_filter",
        ),
        (
            OPENAI,
            json!({"sources": [{"type": "web"}, {"type": "corpus", "name": "demo"}]}),
            "parameter_out_of_range",
            "sources[1].type",
        ),
        (
            OPENAI,
            json!({"max_output_tokens": 100_001}),
            "parameter_out_of_range",
            "max_output_tokens",
        ),
        (
            OPENAI,
            json!({"max_cost": "2.79"}),
            "parameter_out_of_range",
            "max_cost",
        ),
        (
            OPENAI,
            json!({"max_cost": "1", "max_searches": 1}),
            "parameter_out_of_range",
            "max_cost",
        ),
    ] {
        let response = scene.post(RESEARCH, &question(model, members.clone())).await;
        let what = format!("{model} {members}");
        assert_error(&what, &response, code, Some(param));
    }
    assert_eq!(providers.upstream.media_submissions(), 0);
    // The hold is the limit of the model: 500,000 tokens of input, 100,000 of output, 100 searches.
    let accepted = scene
        .post(RESEARCH, &question(OPENAI, json!({"max_cost": "2.8"})))
        .await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let less = json!({"max_cost": "1.018", "max_output_tokens": 1_000, "max_searches": 1});
    let accepted = scene.post(RESEARCH, &question(OPENAI, less)).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    assert!(scene.finish().await.clean);
}
