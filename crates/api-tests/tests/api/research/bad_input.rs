//! Invalid requests are refused with the path of the parameter, before any hold.

use serde_json::{Value, json};

use super::{QUESTION, RESEARCH, minimal};
use crate::scene::{Scene, assert_error};

#[tokio::test]
async fn invalid_requests_name_their_parameter() {
    let scene = Scene::start().await;
    let sites = |count: usize| vec!["example.com"; count].join(",");
    for (members, code, param) in [
        (json!({"model": null}), "missing_required_parameter", "model"),
        (json!({"model": "sim/unknown"}), "model_not_found", "model"),
        (json!({"model": "sim/chat"}), "unsupported_endpoint", "model"),
        (json!({"query": null}), "missing_required_parameter", "query"),
        (json!({"query": ""}), "invalid_parameter", "query"),
        (json!({"query": 7}), "invalid_parameter", "query"),
        (json!({"query": "é".repeat(32_001)}), "invalid_parameter", "query"),
        (
            json!({"messages": [{"role": "user", "content": "Why?"}]}),
            "invalid_parameter",
            "messages",
        ),
        (
            json!({"query": null, "messages": []}),
            "invalid_parameter",
            "messages",
        ),
        (
            json!({"query": null, "messages": [{"role": "assistant", "content": "x"}]}),
            "invalid_parameter",
            "messages[0].role",
        ),
        (
            json!({"query": null, "messages": [{"role": "tool", "content": "x"}]}),
            "invalid_parameter",
            "messages[0].role",
        ),
        (
            json!({"query": null, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "invalid_parameter",
            "messages[0].content[0]",
        ),
        (
            json!({"query": null, "messages": [{"role": "user", "content": "x", "name": "y"}]}),
            "unknown_parameter",
            "messages[0].name",
        ),
        (
            json!({"reasoning_effort": "extreme"}),
            "invalid_parameter",
            "reasoning_effort",
        ),
        (
            json!({"max_output_tokens": 255}),
            "invalid_parameter",
            "max_output_tokens",
        ),
        (
            json!({"max_output_tokens": 100_001}),
            "parameter_out_of_range",
            "max_output_tokens",
        ),
        (
            json!({"search_domain_filter": sites(21)}),
            "invalid_parameter",
            "search_domain_filter",
        ),
        (
            json!({"search_domain_filter": vec!["a.com"; 21]}),
            "invalid_parameter",
            "search_domain_filter",
        ),
        (
            json!({"search_domain_filter": ["a.com", 7]}),
            "invalid_parameter",
            "search_domain_filter[1]",
        ),
        (
            json!({"search_domain_filter": "https://a.com"}),
            "invalid_parameter",
            "search_domain_filter",
        ),
        (
            json!({"search_recency_filter": "decade"}),
            "invalid_parameter",
            "search_recency_filter",
        ),
        (
            json!({"search_after_date_filter": "2026-02-30"}),
            "invalid_parameter",
            "search_after_date_filter",
        ),
        (
            json!({"search_before_date_filter": "13/1/2026"}),
            "invalid_parameter",
            "search_before_date_filter",
        ),
        (
            json!({"search_after_date_filter": "2026-02-02", "search_before_date_filter": "2/1/2026"}),
            "invalid_parameter",
            "search_before_date_filter",
        ),
        (
            json!({"disable_formatting": "yes"}),
            "invalid_parameter",
            "disable_formatting",
        ),
        (json!({"unverified": "keep"}), "invalid_parameter", "unverified"),
        (json!({"max_cost": "free"}), "invalid_parameter", "max_cost"),
        (json!({"max_cost": 0}), "invalid_parameter", "max_cost"),
        (json!({"max_cost": "0.001"}), "parameter_out_of_range", "max_cost"),
        (json!({"max_searches": 0}), "invalid_parameter", "max_searches"),
        (json!({"max_pages": 0}), "invalid_parameter", "max_pages"),
        (
            json!({"instructions": "x".repeat(8_001)}),
            "invalid_parameter",
            "instructions",
        ),
        (
            json!({"language": "english please"}),
            "invalid_parameter",
            "language",
        ),
        (json!({"sources": []}), "invalid_parameter", "sources"),
        (
            json!({"sources": vec![json!({"type": "corpus", "name": "demo"}); 9]}),
            "invalid_parameter",
            "sources",
        ),
        (
            json!({"sources": [{"type": "corpus"}]}),
            "invalid_parameter",
            "sources[0].name",
        ),
        (
            json!({"sources": [{"type": "corpus", "name": "other"}]}),
            "parameter_out_of_range",
            "sources[0].name",
        ),
        (
            json!({"sources": [{"type": "web"}]}),
            "parameter_out_of_range",
            "sources[0].type",
        ),
        (
            json!({"sources": [{"type": "book"}]}),
            "invalid_parameter",
            "sources[0].type",
        ),
        (json!({"sync": true, "wait": true}), "invalid_parameter", "wait"),
        (json!({"stream": true}), "unsupported_parameter", "stream"),
        (
            json!({"webhook_url": "ftp://example.com"}),
            "invalid_parameter",
            "webhook_url",
        ),
        (json!({"temperature": 1}), "unknown_parameter", "temperature"),
    ] {
        let response = scene.post(RESEARCH, &minimal(members.clone())).await;
        let what: String = members.to_string().chars().take(100).collect();
        assert_error(&what, &response, code, Some(param));
    }
    scene.nothing_happened().await;
    assert!(scene.finish().await.clean);
}

/// A script that the simulator cannot read refuses the request, in every format.
#[tokio::test]
async fn invalid_scripts_of_the_simulator_are_refused() {
    let scene = Scene::start().await;
    let script = "[[sim nonsense=1]] Who sails?";
    let messages = json!([
        {"role": "system", "content": "Be short. [[sim ignored here]]"},
        {"role": "user", "content": [{"type": "text", "text": script}]},
    ]);
    let chat = json!({"model": "sim/research", "messages": messages});
    for (path, body, param) in [
        (RESEARCH, minimal(json!({"query": script})), "query"),
        (
            RESEARCH,
            minimal(json!({"query": null, "messages": messages})),
            "messages[1].content",
        ),
        (
            "/v1/quote",
            json!({"endpoint": RESEARCH, "request": minimal(json!({"query": script}))}),
            "request.query",
        ),
        ("/v1/chat/completions", chat.clone(), "messages[1].content"),
        (
            "/v1/async/chat/completions",
            json!({"request": chat}),
            "request.messages[1].content",
        ),
        (
            "/v1/responses",
            json!({"model": "sim/research", "input": script}),
            "input",
        ),
        (
            "/v1/responses",
            json!({"model": "sim/research", "input": messages}),
            "input[1].content",
        ),
    ] {
        let response = scene.post(path, &body).await;
        assert_error(path, &response, "invalid_parameter", Some(param));
        assert_eq!(response.status, 400);
    }
    scene.nothing_happened().await;
    assert!(scene.finish().await.clean);
}

/// Limits are accepted on their inner side.
#[tokio::test]
async fn limits_are_inclusive() {
    let scene = Scene::start().await;
    let sites = vec!["-example.com"; 20].join(", ");
    let long = format!("{QUESTION} {}", "é".repeat(32_000 - QUESTION.len() - 1));
    let messages = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Who sails?"},
        {"role": "assistant", "content": "Orsel Lines."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]);
    for members in [
        json!({"query": long}),
        json!({"query": null, "messages": messages}),
        json!({"search_domain_filter": sites, "max_output_tokens": 256, "max_searches": 1, "max_pages": 1}),
        json!({"max_output_tokens": 100_000, "instructions": "x".repeat(8_000), "language": "pt-BR"}),
        json!({"search_after_date_filter": "1/1/1900", "search_before_date_filter": "2999-12-31"}),
        json!({"sources": [{"type": "corpus", "name": "demo"}], "disable_formatting": true}),
    ] {
        let id = scene.research(&minimal(members.clone())).await;
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "completed", "{members} {job}");
        let has_raw = job["result"]["raw"]["plan"] != Value::Null;
        assert_eq!(has_raw, members["disable_formatting"] == true, "{job}");
    }
    assert!(scene.finish().await.clean);
}

/// Without credits, nothing is written. A maximum cost reduces the effort, and the charge is at
/// most the maximum.
#[tokio::test]
async fn the_maximum_cost_is_held() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await;
    let request =
        tollgate_testkit::gateway::http::Request::json(RESEARCH, &minimal(json!({}))).key(&key.secret);
    let response = scene.client().send(&request).await;
    assert_error("poor", &response, "insufficient_credits", None);
    let jobs = scene.client().get("/v1/jobs", &key.secret).await.json();
    assert_eq!(jobs["data"], json!([]));
    let minimum = scene
        .post(RESEARCH, &minimal(json!({"max_cost": "0.000000001"})))
        .await
        .json();
    let message = minimum["error"]["message"].as_str().unwrap();
    let minimum: String = message
        .split("must be at least ")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap()
        .to_owned();
    for effort in ["minimal", "low", "medium", "high"] {
        let body = minimal(json!({"reasoning_effort": effort, "max_cost": minimum}));
        let quote = scene
            .post("/v1/quote", &json!({"endpoint": RESEARCH, "request": body}))
            .await
            .json();
        assert_eq!(quote["most"], minimum, "{effort}");
    }
    let id = scene.research(&minimal(json!({"max_cost": minimum}))).await;
    let job = scene.researched(&id).await;
    let nanos = tollgate_testkit::gateway::nanos;
    assert!(nanos(&job["cost"]) <= nanos(&json!(minimum)), "{job}");
    assert!(scene.finish().await.clean);
}

/// Jobs and sources of another account do not exist.
#[tokio::test]
async fn sources_belong_to_their_account() {
    let scene = Scene::start().await;
    let id = scene.research(&minimal(json!({}))).await;
    let job = scene.researched(&id).await;
    let source = job["result"]["sources"][0]["id"].as_str().unwrap();
    let characters = job["result"]["sources"][0]["characters"].as_u64().unwrap();
    let other = scene.gateway.account().await;
    let other = scene.gateway.key(&other).await;
    let path = format!("/v1/research/{id}/sources/{source}");
    let response = scene.client().get(&path, &other.secret).await;
    assert_error("other account", &response, "not_found", Some("source_id"));
    for other in ["s999", "x", "s", "S1", "s0", "s01", "s+1", "s1%20", "s-1"] {
        let path = format!("/v1/research/{id}/sources/{other}");
        assert_error(&path, &scene.read(&path).await, "not_found", Some("source_id"));
    }
    for (path, code, param) in [
        (
            format!("/v1/research/job_0/sources/{source}"),
            "not_found",
            "source_id",
        ),
        (
            format!("{path}?start={}", characters + 1),
            "invalid_parameter",
            "start",
        ),
        (
            format!("{path}?end={}", characters + 1),
            "invalid_parameter",
            "end",
        ),
        (format!("{path}?start=5&end=4"), "invalid_parameter", "end"),
    ] {
        assert_error(&path, &scene.read(&path).await, code, Some(param));
    }
    let whole = scene.read(&format!("{path}?start=0&end={characters}")).await;
    assert_eq!(whole.text(), scene.read(&path).await.text());
    assert!(scene.finish().await.clean);
}
