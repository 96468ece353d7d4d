//! Models whose provider uses chat completions.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, At, How, Reply, Usage};

use super::{assert_refused, content_of, events_of, saying, send};
use crate::scene::{Classes, GRANTED, MODEL, PRICES, Scene};

/// Additional capabilities of the model in these tests.
const ABLE: &str = r#"
[models."acme/large"]
input = ["text", "image", "file"]
structured_output = "json_schema"
tools = true
reasoning = true
"#;

const EVERY_CLASS: Classes = Classes {
    input: 900,
    cache_read: 234,
    cache_write: 100,
    output: 560,
    reasoning: 7,
};

async fn able() -> Scene {
    // The settings already have a table for the model, so the lines are inserted into it.
    let upstream = tollgate_testkit::upstream::FakeUpstream::start().await;
    upstream.set_api_key(crate::scene::PROVIDER_KEY);
    let mut options = Scene::options(&upstream, Default::default(), "");
    let more = ABLE.split_once("]\n").map_or("", |(_, more)| more);
    options.config = options.config.replacen(
        "[models.\"acme/large\"]\n",
        &format!("[models.\"acme/large\"]\n{more}"),
        1,
    );
    let gateway = tollgate_testkit::gateway::Gateway::start(crate::scene::BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

#[tokio::test]
async fn every_class_is_charged_at_its_price() {
    let scene = Scene::start().await;
    let cost = EVERY_CLASS.at(PRICES);
    let text = "x".repeat(2_000);
    for stream in [false, true] {
        let answer = Answer::words(3).reasoning(7).usage(Usage::Fixed {
            prompt: 1_234,
            completion: 567,
        });
        scene
            .upstream
            .push(Reply::answer(answer.cached_tokens(234).cache_write_tokens(100)));
        let response = send(
            &scene,
            &saying(MODEL, &text, json!({"stream": stream, "max_tokens": 1_000})),
        )
        .await;
        assert_eq!(response.status, 200, "{}", response.text());
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        assert_eq!(nanos(&row["cost"]), cost);
        let (usage, content) = if stream {
            let events = events_of(&response);
            (
                events[events.len() - 2]["usage"].clone(),
                json!(content_of(&events)),
            )
        } else {
            let body = response.json();
            (body["usage"].clone(), body["content"].clone())
        };
        assert_eq!(
            usage,
            json!({
                "input_tokens": 900, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 234,
                "output_tokens": 567, "output_tokens_details": {"thinking_tokens": 7}, "cost": "0.0022144",
            })
        );
        assert_eq!(content[0]["thinking"], "r1 r2 r3 r4 r5 r6 r7 ");
        assert_eq!(content[1]["text"], "w1 w2 w3");
        assert!(content[0]["signature"].as_str().unwrap().starts_with("gw1."));
    }
    assert_eq!(scene.finish().await.revenue, 2 * cost);
}

#[tokio::test]
async fn a_request_is_written_as_a_chat_completion() {
    let scene = able().await;
    let members = json!({
        "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "and brief"}],
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "t"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
                {"type": "text", "text": "look"},
            ]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "calling"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.5}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}], "is_error": true},
                {"type": "text", "text": "and?"},
            ]},
            {"role": "system", "content": "hurry"},
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 4_095,
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["END"], "metadata": {"user_id": "u"}, "temperature": 0.5, "service_tier": "auto",
    });
    let response = send(&scene, &saying(MODEL, "", members)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let ignored = response.header("x-tollgate-ignored").unwrap();
    let mut names: Vec<&str> = ignored.split(',').collect();
    names.sort_unstable();
    assert_eq!(names, ["cache_control", "service_tier"], "{ignored}");
    let mut sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    let messages = sent.as_object_mut().unwrap().remove("messages").unwrap();
    assert_eq!(
        messages,
        json!([
            {"role": "system", "content": [{"type": "text", "text": "be kind"}, {"type": "text", "text": "and brief"}]},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "t"}},
                {"type": "text", "text": "plain"},
                {"type": "text", "text": "look"},
            ]},
            {"role": "assistant", "content": "calling", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1.5}"}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: 2"},
            {"role": "user", "content": "and?"},
            {"role": "system", "content": "hurry"},
        ])
    );
    assert_eq!(
        sent,
        json!({
            "model": "large-v1", "max_tokens": 4_095, "stop": "END", "temperature": 0.5,
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
            "tool_choice": "required", "parallel_tool_calls": false,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": true}},
            "reasoning_effort": "low", "user": "u",
        })
    );
    scene.finish().await;
}

#[tokio::test]
async fn unsupported_content_is_refused_with_its_parameter() {
    let scene = able().await;
    let user = json!({"role": "user", "content": "hi"});
    let call =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]});
    let text = json!({"type": "text", "text": "t"});
    let cases = [
        (json!({"top_k": 5}), "top_k"),
        (
            json!({"stop_sequences": ["a", "b", "c", "d", "e"]}),
            "stop_sequences",
        ),
        (json!({"max_tokens": 0}), "max_tokens"),
        (
            json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            "tools[0].type",
        ),
        (
            json!({"messages": [user, {"role": "assistant", "content": "so"}]}),
            "messages[1]",
        ),
        (
            json!({"messages": [user, call, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                text,
                {"type": "search_result", "source": "s", "title": "t", "content": [text]},
            ]}]}),
            "messages[2].content[2]",
        ),
    ];
    for (members, param) in cases {
        let body = saying(MODEL, "hi", members);
        let response = send(&scene, &body).await;
        assert_refused(&body.to_string(), &response, "unsupported_parameter", Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn reasoning_is_sent_back_to_its_provider() {
    let scene = able().await;
    let mut contents = Vec::new();
    for stream in [false, true] {
        scene
            .upstream
            .push(Reply::answer(Answer::calling("f", &json!({"x": 1})).reasoning(2)));
        let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
        let first = send(
            &scene,
            &saying(MODEL, "go", json!({"tools": tools, "stream": stream})),
        )
        .await;
        let content = match stream {
            true => json!(content_of(&events_of(&first))),
            false => first.json()["content"].clone(),
        };
        let next = json!({"tools": tools, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": content[1]["id"], "content": "1"}]},
        ]});
        let second = send(&scene, &saying(MODEL, "", next)).await;
        assert_eq!(second.status, 200, "{}", second.text());
        assert_eq!(second.header("x-tollgate-ignored"), None);
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(sent["messages"][1]["reasoning_content"], "r1 r2 ", "{sent}");
        contents.push(content);
    }
    let blocks = |content: &Value| content.as_array().unwrap().len();
    assert_eq!(blocks(&contents[0]), blocks(&contents[1]));
    let hidden = json!({"thinking": {"type": "adaptive", "display": "omitted"}});
    scene.upstream.push(Reply::answer(Answer::words(2).reasoning(2)));
    let body = send(&scene, &saying(MODEL, "go", hidden)).await.json();
    assert_eq!(body["content"][0]["thinking"], "");
    scene.finish().await;
}

#[tokio::test]
async fn upstream_faults_become_errors_of_this_format() {
    let scene = Scene::start().await;
    for (at, how) in [(At::Events(5), How::Close), (At::InsideEvent(5), How::Reset)] {
        scene.upstream.push(Reply::words(10).cut(at, how));
        let response = send(&scene, &saying(MODEL, "hi", json!({"stream": true}))).await;
        let events = events_of(&response);
        assert_eq!(events.last().unwrap()["type"], "error", "{}", response.text());
        assert!(!response.text().contains("message_stop"));
    }
    scene.upstream.push(Reply::html(200));
    assert_refused(
        "a page",
        &send(&scene, &saying(MODEL, "hi", json!({}))).await,
        "upstream_error",
        None,
    );
    let row_count = scene.rows().await.len();
    assert_eq!(row_count, 3);
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}
