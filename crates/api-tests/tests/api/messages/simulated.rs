//! The simulator in this format: the first calls that every client makes.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;

use super::{MESSAGES, assert_refused, content_of, events_of, saying, scene, send};
use crate::scene::{FREE, PLAIN, PROVIDER, Scene};

const SIM: &str = "sim/chat";
/// A model without structured output.
const BARE: &str = "acme/bare";

#[tokio::test]
async fn both_headers_authenticate() {
    let scene = Scene::start().await;
    let body = saying(SIM, "Hi there", json!({}));
    let request = || Request::json(MESSAGES, &body).header("anthropic-version", "2023-06-01");
    let client = scene.client();
    for request in [
        request().key(&scene.key.secret),
        request().header("x-api-key", scene.key.secret.as_str()),
    ] {
        let response = client.send(&request).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let body = response.json();
        assert_eq!(body["content"], json!([{"type": "text", "text": "Hi there"}]));
        assert_eq!(
            (&body["type"], &body["role"], &body["model"]),
            (&json!("message"), &json!("assistant"), &json!(SIM))
        );
        assert_eq!(
            (&body["stop_reason"], &body["stop_sequence"]),
            (&json!("end_turn"), &Value::Null)
        );
        assert!(body["id"].as_str().unwrap().starts_with("msg_"));
    }
    assert_refused("no key", &client.send(&request()).await, "missing_api_key", None);
    let wrong = client
        .send(&request().header("x-api-key", "sk-service-nobody"))
        .await;
    assert_refused("a wrong key", &wrong, "invalid_api_key", None);
    scene.finish().await;
}

#[tokio::test]
async fn a_stream_equals_the_whole_response() {
    let scene = Scene::start().await;
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    for (text, reason) in [
        ("one two three", "end_turn"),
        ("[[sim tokens=5 reason=3]]", "end_turn"),
        ("[[sim tokens=3 tool=f:{\"x\":[1,2]} tool=f:{}]]", "tool_use"),
        ("[[sim tool=f:{\"x\":\"y\"}]]", "tool_use"),
        ("[[sim refuse]]", "refusal"),
        ("[[sim tokens=300]]", "max_tokens"),
        ("go STOP on", "stop_sequence"),
    ] {
        let members = json!({"tools": tools, "stop_sequences": ["STOP"]});
        let whole = send(&scene, &saying(SIM, text, members.clone())).await;
        let whole_body = whole.json();
        let mut body = saying(SIM, text, members);
        body["stream"] = json!(true);
        let streamed = send(&scene, &body).await;
        assert_eq!(
            streamed.header("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        let events = events_of(&streamed);
        let names = |content: &Value| {
            let blocks = content.as_array().unwrap().iter();
            blocks
                .map(|block| json!([block["type"], block["text"], block["thinking"], block["input"]]))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&json!(content_of(&events))),
            names(&whole_body["content"]),
            "{text}"
        );
        let last = &events[events.len() - 2];
        assert_eq!(last["delta"]["stop_reason"], reason, "{text}");
        assert_eq!(whole_body["stop_reason"], reason, "{text}");
        assert_eq!(last["delta"]["stop_sequence"], whole_body["stop_sequence"]);
        assert_eq!(last["usage"], whole_body["usage"], "{text}");
        for (response, cost) in [
            (&whole, &whole_body["usage"]["cost"]),
            (&streamed, &last["usage"]["cost"]),
        ] {
            let row = scene.row(response.request_id()).await;
            assert_eq!(row["cost"], *cost, "{text}");
            assert_eq!(row["endpoint"], "/v1/messages");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_tool_loop_completes() {
    let scene = Scene::start().await;
    let tools = json!([{"name": "weather", "description": "d", "input_schema": {"type": "object", "properties": {"city": {"const": "Oslo"}}, "required": ["city"]}}]);
    let choice = json!({"type": "any"});
    let first = send(
        &scene,
        &saying(SIM, "How is it?", json!({"tools": tools, "tool_choice": choice})),
    )
    .await
    .json();
    let call = &first["content"][0];
    assert_eq!(
        (&call["name"], &call["input"]),
        (&json!("weather"), &json!({"city": "Oslo"})),
        "{first}"
    );
    let result = |extra: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "rain"}]});
        for (name, value) in extra.as_object().unwrap() {
            block[name] = value.clone();
        }
        json!({"tools": tools, "messages": [
            {"role": "user", "content": "How is it?"},
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [block]},
        ]})
    };
    let second = send(&scene, &saying(SIM, "", result(json!({})))).await.json();
    assert_eq!(
        second["content"],
        json!([{"type": "text", "text": "rain"}]),
        "{second}"
    );
    let failed = send(&scene, &saying(SIM, "", result(json!({"is_error": true})))).await;
    assert_eq!(failed.status, 200);
    let stranger = send(&scene, &saying(SIM, "", result(json!({"tool_use_id": "other"})))).await;
    assert_refused(
        "a result without a call",
        &stranger,
        "invalid_parameter",
        Some("messages[2].content[0].tool_use_id"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn structured_output_is_requested_in_both_ways() {
    let bare = format!(
        "[models.\"{BARE}\"]\ntargets = [\"{PROVIDER}/bare-v1\"]\nprices = {{ input = \"1\", output = \"1\" }}\nstructured_output = \"none\"\n"
    );
    let scene = Scene::start_with(&bare).await;
    let schema = json!({"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]});
    let own = json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}});
    let extension =
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}});
    for members in [&own, &extension] {
        let body = send(&scene, &saying(SIM, "go", members.clone())).await.json();
        let text = body["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"n": 7}));
    }
    let any = json!({"response_format": {"type": "json_object"}});
    let body = send(&scene, &saying(SIM, "go", any)).await.json();
    assert!(
        serde_json::from_str::<Value>(body["content"][0]["text"].as_str().unwrap())
            .unwrap()
            .is_object()
    );
    for (members, param) in [(own, "output_config.format"), (extension, "response_format")] {
        let refused = send(&scene, &saying(BARE, "go", members)).await;
        assert_refused("a model without", &refused, "unsupported_parameter", Some(param));
    }
    scene.finish().await;
}

#[tokio::test]
async fn every_simulated_error_has_the_shape_of_the_format() {
    let scene = Scene::start().await;
    for code in [
        "content_policy_violation",
        "context_length_exceeded",
        "rate_limit_exceeded",
        "internal_error",
        "upstream_error",
        "upstream_timeout",
        "model_unavailable",
        "overloaded",
    ] {
        for stream in [false, true] {
            let text = format!("[[sim error={code}]]");
            let response = send(&scene, &saying(SIM, &text, json!({"stream": stream}))).await;
            let error = response.message_error();
            assert_eq!(error.code, code);
            assert_eq!(error.kind, super::kind_of(response.status), "{code}");
        }
        let text = format!("[[sim tokens=9 cut=4 error={code}]]");
        let response = send(&scene, &saying(SIM, &text, json!({"stream": true}))).await;
        let events = events_of(&response);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "error", "{}", response.text());
        assert_eq!(last["request_id"].as_str(), Some(response.request_id()));
        assert!(!response.text().contains("message_stop"));
    }
    let client = scene.client();
    let get = client.send(&Request::get(MESSAGES).key(&scene.key.secret)).await;
    assert_refused("GET", &get, "method_not_allowed", None);
    let below = client
        .send(&Request::json("/v1/messages/batch", &json!({})).key(&scene.key.secret))
        .await;
    assert_refused("a path below", &below, "not_found", None);
    let elsewhere = client
        .send(&Request::get("/v1/messagesx").key(&scene.key.secret))
        .await;
    assert_eq!(
        elsewhere.error().code,
        "not_found",
        "another path has the usual body"
    );
    scene.finish().await;
}

#[tokio::test]
async fn limits_are_reported_in_both_ways_and_enforced() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 2, 1_000_000).await;
    for left in ["1", "0"] {
        let response = send(&scene, &saying(FREE, "Hi", json!({}))).await;
        assert_eq!(response.header("anthropic-ratelimit-requests-limit"), Some("2"));
        assert_eq!(
            response.header("anthropic-ratelimit-requests-remaining"),
            Some(left)
        );
        assert_eq!(response.header("x-ratelimit-remaining-requests"), Some(left));
        assert_eq!(
            response.header("anthropic-ratelimit-tokens-limit"),
            Some("1000000")
        );
        let reset = response.header("anthropic-ratelimit-requests-reset").unwrap();
        assert!(reset.len() == 20 && reset.ends_with('Z'), "{reset}");
    }
    let refused = send(&scene, &saying(FREE, "Hi", json!({}))).await;
    assert_refused("the third", &refused, "rate_limit_exceeded", None);
    assert!(refused.header("retry-after").is_some());
    // Token counting has a separate rate limit.
    let counted = count(&scene, &saying(SIM, "one two", json!({}))).await;
    assert_eq!(counted.status, 200, "{}", counted.text());
    assert_eq!(counted.header("anthropic-ratelimit-requests-limit"), Some("600"));
    scene.finish().await;
}

async fn count(scene: &Scene, body: &Value) -> tollgate_testkit::gateway::http::Response {
    let request = Request::json("/v1/messages/count_tokens", body).key(&scene.key.secret);
    scene.client().send(&request).await
}

#[tokio::test]
async fn counting_is_free_and_names_its_method() {
    let scene = scene().await;
    let mut body = saying(SIM, "one two three", json!({"system": "be brief"}));
    body.as_object_mut().unwrap().remove("max_tokens");
    let counted = count(&scene, &body).await;
    assert_eq!(counted.json(), json!({"input_tokens": 5, "counting": "exact"}));
    assert_eq!(counted.header("x-tollgate-counting"), Some("exact"));
    let used = send(
        &scene,
        &saying(SIM, "one two three", json!({"system": "be brief"})),
    )
    .await
    .json();
    assert_eq!(used["usage"]["input_tokens"], 5, "equals the charge");
    for (model, how) in [(PLAIN, "upper_bound"), (super::NATIVE, "exact")] {
        body["model"] = json!(model);
        let counted = count(&scene, &body).await;
        assert_eq!(counted.header("x-tollgate-counting"), Some(how));
        let tokens = counted.json()["input_tokens"].as_u64().unwrap();
        assert!(tokens > 0);
        assert_eq!(
            tokens >= body.to_string().len() as u64,
            how == "upper_bound",
            "{tokens}"
        );
    }
    body["model"] = json!("acme/none");
    assert_refused(
        "no model",
        &count(&scene, &body).await,
        "model_not_found",
        Some("model"),
    );
    body["messages"] = json!([]);
    assert_refused(
        "no messages",
        &count(&scene, &body).await,
        "invalid_parameter",
        Some("messages"),
    );
    assert_eq!(
        scene.upstream.request_count(),
        1,
        "the one of the provider that counts"
    );
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 1, "only the message has a row");
    assert_eq!(scene.finish().await.revenue, nanos(&rows[0]["cost"]));
}
