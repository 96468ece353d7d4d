//! A provider that uses the format: its responses to callers of both formats, and their cost.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, At, How, Reply, Usage};

use super::{MESSAGES, NATIVE, assert_refused, content_of, events_of, saying, scene, send};
use crate::lenient::set_compat;
use crate::scene::{Classes, GRANTED, MODEL, PRICES, with};

const EVERY_CLASS: Classes = Classes {
    input: 900,
    cache_read: 234,
    cache_write: 100,
    output: 560,
    reasoning: 7,
};

fn every_class() -> Reply {
    let answer = Answer::words(3).reasoning(7).usage(Usage::Fixed {
        prompt: 1_234,
        completion: 567,
    });
    Reply::answer(answer.cached_tokens(234).cache_write_tokens(100))
}

#[tokio::test]
async fn every_class_is_charged_at_its_price() {
    let scene = scene().await;
    let cost = EVERY_CLASS.at(PRICES);
    let text = "x".repeat(2_000);
    let mut paid = 0;
    for stream in [false, true] {
        scene.upstream.push(every_class());
        let body = saying(NATIVE, &text, json!({"stream": stream, "max_tokens": 1_000}));
        let response = send(&scene, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        paid += cost;
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        assert_eq!((nanos(&row["cost"]), &row["estimated"]), (cost, &json!(false)));
        assert_eq!(scene.balance().await.credits, GRANTED - paid);
        let usage = if stream {
            let events = events_of(&response);
            assert_eq!(events[0]["message"]["model"], NATIVE);
            events[events.len() - 2]["usage"].clone()
        } else {
            assert_eq!(response.json()["model"], NATIVE);
            assert_eq!(
                response.header("x-tollgate-cost"),
                usage_cost(&response.json()["usage"]).as_deref()
            );
            response.json()["usage"].clone()
        };
        assert_eq!(nanos(&usage["cost"]), cost);
        assert_eq!(
            (&usage["input_tokens"], &usage["cache_read_input_tokens"]),
            (&json!(900), &json!(234))
        );
        assert_eq!(usage["service_tier"], "standard", "the report is unchanged");
    }
    // Callers of chat completions pay the same.
    for stream in [false, true] {
        scene.upstream.push(every_class());
        let options = if stream {
            json!({"stream": true, "stream_options": {"include_usage": true}})
        } else {
            json!({})
        };
        let chat = with(
            json!({"model": NATIVE, "messages": [{"role": "user", "content": text}]}),
            options,
        );
        let response = scene.chat(&chat).await;
        assert_eq!(response.status, 200, "{}", response.text());
        paid += cost;
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        let usage = if stream {
            let events = response.events();
            assert_eq!(events[events.len() - 1].data.as_deref(), Some("[DONE]"));
            events[events.len() - 2].json()["usage"].clone()
        } else {
            let body = response.json();
            assert_eq!(body["choices"][0]["message"]["content"], "w1 w2 w3");
            assert_eq!(
                body["choices"][0]["message"]["reasoning_content"],
                "r1 r2 r3 r4 r5 r6 r7 "
            );
            body["usage"].clone()
        };
        assert_eq!(nanos(&usage["cost"]), cost);
        assert_eq!(
            (&usage["prompt_tokens"], &usage["completion_tokens"]),
            (&json!(1_234), &json!(567))
        );
    }
    assert_eq!(scene.finish().await.revenue, paid);
}

#[tokio::test]
async fn one_hour_cache_writes_cost_twice_the_input() {
    let scene = scene().await;
    // Credits per million tokens: 300 uncached at 1, 200 cached for five minutes at 1.5, 500 cached
    // for an hour at 2, 10 of output at 2.
    let cost = 300_000 + 300_000 + 1_000_000 + 20_000;
    let report = json!({
        "input_tokens": 300, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 700,
        "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 500},
    });
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": null, "content": [{"type": "text", "text": "yes"}], "usage": report,
    });
    let marked = |ttl: &str| json!({"system": [{"type": "text", "text": "x".repeat(2_000), "cache_control": {"type": "ephemeral", "ttl": ttl}}]});
    for ttl in ["5m", "1h"] {
        scene
            .upstream
            .push(Reply::body(200, "application/json", answer.to_string()));
        let response = send(
            &scene,
            &saying(NATIVE, "hello", with(marked(ttl), json!({"max_tokens": 10}))),
        )
        .await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(sent["system"][0]["cache_control"]["ttl"], ttl);
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (
                &row["usage"]["cache_write_tokens"],
                &row["usage"]["cache_write_1h_tokens"],
                &row["usage"]["total_tokens"]
            ),
            (&json!(200), &json!(500), &json!(1_010))
        );
        assert_eq!(nanos(&row["cost"]), cost);
        assert_eq!(nanos(&response.json()["usage"]["cost"]), cost);
    }
    assert_eq!(scene.finish().await.revenue, 2 * cost);
}

fn usage_cost(usage: &Value) -> Option<String> {
    usage["cost"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_request_is_forwarded_verbatim() {
    let scene = scene().await;
    let members = json!({
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "t"},
            {"type": "text", "text": "look", "vendor": 1.50},
        ]}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "big": 123456789012345678901234567890_f64}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000,
        "output_config": {"effort": "high"}, "stop_sequences": ["a", "b", "c", "d", "e"],
        "metadata": {"user_id": "u"}, "temperature": 1, "top_k": 5,
    });
    let mut body = saying(NATIVE, "", members);
    let response = send(
        &scene,
        &with(body.clone(), json!({"context_management": {}, "betas": ["b"]})),
    )
    .await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(
        response.header("x-tollgate-ignored"),
        Some("context_management,betas")
    );
    body["model"] = json!("native-v1");
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(sent.json().unwrap(), body);
    assert!(
        sent.body.windows(4).any(|bytes| bytes == b"1.5}"),
        "numbers are as they were written"
    );
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let asked =
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}});
    for config in [json!(null), json!({}), json!({"effort": "low"})] {
        let mut asked = asked.clone();
        let mut expected = json!({"format": format});
        if !config.is_null() {
            asked["output_config"] = config.clone();
            for (name, value) in config.as_object().unwrap() {
                expected[name] = value.clone();
            }
        }
        let response = send(&scene, &saying(NATIVE, "go", asked)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(
            (&sent["output_config"], sent.get("response_format")),
            (&expected, None)
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn reasoning_and_tools_survive_a_loop() {
    let scene = scene().await;
    for stream in [false, true] {
        scene
            .upstream
            .push(Reply::answer(Answer::calling("f", &json!({"x": 1})).reasoning(2)));
        let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
        let first = send(
            &scene,
            &saying(NATIVE, "go", json!({"tools": tools, "stream": stream})),
        )
        .await;
        let content = match stream {
            true => json!(content_of(&events_of(&first))),
            false => first.json()["content"].clone(),
        };
        let signature = content[0]["signature"].as_str().unwrap();
        assert!(
            signature.starts_with("gw1.") && !signature.contains("southwind"),
            "{signature}"
        );
        assert_eq!(content[1]["input"], json!({"x": 1}));
        let next = json!({"tools": tools, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": content[1]["id"], "content": "1"}]},
        ]});
        let second = send(&scene, &saying(NATIVE, "", next.clone())).await;
        assert_eq!(second.status, 200, "{}", second.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        let back = &sent["messages"][1]["content"][0];
        assert!(back["signature"].as_str().unwrap().starts_with("sig-"), "{back}");
        assert_eq!(back["thinking"], "r1 r2 ");
        // A provider of another format receives no reasoning, and the response header reports this.
        let elsewhere = send(
            &scene,
            &with(saying("acme/large", "", next), json!({"max_tokens": 50})),
        )
        .await;
        assert_eq!(elsewhere.status, 200, "{}", elsewhere.text());
        assert_eq!(
            elsewhere.header("x-tollgate-ignored"),
            Some("messages.content.thinking")
        );
        let sent = scene.upstream.requests().pop().unwrap();
        let text = String::from_utf8(sent.body.to_vec()).unwrap();
        assert!(sent.path.ends_with("/chat/completions"));
        assert!(
            !text.contains("sig-") && !text.contains("gw1.") && !text.contains("r1 r2"),
            "{text}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn cache_writes_are_charged() {
    let scene = scene().await;
    let filled = Answer::deltas::<&str>([])
        .usage(Usage::Fixed {
            prompt: 100_000,
            completion: 0,
        })
        .cache_write_tokens(100_000);
    scene.upstream.push(Reply::answer(filled));
    let system =
        json!([{"type": "text", "text": "x".repeat(120_000), "cache_control": {"type": "ephemeral"}}]);
    let body = saying(NATIVE, "hi", json!({"max_tokens": 0, "system": system}));
    let response = send(&scene, &body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let expected = Classes {
        cache_write: 100_000,
        ..Classes::default()
    };
    let row = scene.row(response.request_id()).await;
    assert_eq!(Classes::of_row(&row), expected, "{row}");
    let usage = &response.json()["usage"];
    assert_eq!(
        (&usage["cache_creation_input_tokens"], nanos(&usage["cost"])),
        (&json!(100_000), expected.at(PRICES))
    );
    assert_eq!(scene.settled().await.credits, GRANTED - expected.at(PRICES));
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_stream_ends_with_an_error_and_costs_nothing() {
    let scene = scene().await;
    for reply in [
        Reply::words(10).cut(At::Events(6), How::Close),
        Reply::words(10).cut(At::Events(6), How::Reset),
        Reply::words(10).error_after(6, "overloaded_error", "sk-secret"),
    ] {
        scene.upstream.push(reply);
        let response = send(&scene, &saying(NATIVE, "hi", json!({"stream": true}))).await;
        let events = events_of(&response);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "error", "{}", response.text());
        assert_eq!(last["error"]["code"], "upstream_error");
        assert_eq!(response.text().matches("event: error\ndata: {").count(), 1);
        assert!(!response.text().contains("message_stop") && !response.text().contains("secret"));
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["outcome"]),
            (&json!("0"), &json!("upstream_error")),
            "{row}"
        );
    }
    for (reply, code) in [
        (Reply::error(529, "overloaded_error", "busy"), "model_unavailable"),
        (Reply::error(401, "authentication_error", "no"), "upstream_error"),
        (Reply::error(429, "rate_limit_error", "slow"), "model_unavailable"),
        (
            Reply::error(400, "invalid_request_error", "no"),
            "invalid_parameter",
        ),
    ] {
        scene.upstream.set_default(reply);
        let response = send(&scene, &saying(NATIVE, "hi", json!({}))).await;
        assert_refused(code, &response, code, None);
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert_eq!(scene.finish().await.revenue, 0);
}

#[tokio::test]
async fn parameters_without_an_equivalent_are_refused() {
    let scene = scene().await;
    set_compat(&scene, &scene.key.id, "strict").await;
    let text = json!([{"role": "user", "content": "hi"}]);
    let cases = [
        (json!({"n": 2}), "unsupported_parameter", "n"),
        (json!({"logprobs": true}), "unsupported_parameter", "logprobs"),
        (
            json!({"logit_bias": {"1": 5}}),
            "unsupported_parameter",
            "logit_bias",
        ),
        (
            json!({"presence_penalty": 1}),
            "unsupported_parameter",
            "presence_penalty",
        ),
        (
            json!({"temperature": 1.5}),
            "parameter_out_of_range",
            "temperature",
        ),
        (
            json!({"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
            "unsupported_parameter",
            "tools[0].type",
        ),
        (
            json!({"prediction": {"type": "content", "content": "p"}}),
            "unsupported_parameter",
            "prediction",
        ),
        (
            json!({"messages": [text[0], {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,iVBORw0KGgo="}}]}]}),
            "unsupported_parameter",
            "messages[1].content[0]",
        ),
        (
            json!({"messages": [text[0], {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{x"}}]}]}),
            "invalid_parameter",
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            json!({"temperature": 0.5, "messages": [text[0], {"role": "system", "content": "now"}, text[0]]}),
            "unsupported_parameter",
            "messages[1].role",
        ),
    ];
    for (members, code, param) in cases {
        let body = with(json!({"model": NATIVE, "messages": text}), members);
        let response = scene.chat(&body).await;
        crate::scene::assert_error(&body.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    let hints = json!({"seed": 7, "store": false, "user": "u", "verbosity": "low", "service_tier": "auto"});
    let body = with(
        json!({"model": NATIVE, "messages": [text[0], {"role": "system", "content": "now"}, text[0]]}),
        hints,
    );
    let response = scene.chat(&body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(
        response.header("x-tollgate-ignored"),
        Some("store,verbosity,seed")
    );
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(
        sent.header("anthropic-version"),
        Some("2026-10-21"),
        "instructions within the conversation"
    );
    assert_eq!(sent.json().unwrap()["max_tokens"], 4_096, "the largest held cap");
    scene.finish().await;
}

#[tokio::test]
async fn betas_that_can_be_metered_are_requested() {
    let scene = scene().await;
    let (known, unknown) = ("interleaved-thinking-2025-05-14", "unheard-of-2027-01-01");
    for compat in ["strict", "lenient"] {
        set_compat(&scene, &scene.key.id, compat).await;
        let ask = async |model: &str, betas: &str| {
            let request = Request::json(MESSAGES, &saying(model, "hello", json!({})))
                .header("anthropic-beta", betas)
                .key(&scene.key.secret);
            scene.client().send(&request).await
        };
        let response = ask(NATIVE, &format!("claude-code-20250219,{known},{unknown}")).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.upstream.requests().pop().unwrap();
        assert_eq!(sent.header("anthropic-beta"), Some(known));
        assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
        let ignored = format!("anthropic-beta.{unknown}");
        assert_eq!(response.header("x-tollgate-ignored"), Some(&*ignored));

        let response = ask(NATIVE, "claude-code-20250219").await;
        assert_eq!(
            (response.status, response.header("x-tollgate-ignored")),
            (200, None)
        );
        let sent = scene.upstream.requests().pop().unwrap();
        assert_eq!(sent.header("anthropic-beta"), None);

        // A provider of another format has no betas.
        let response = ask(MODEL, known).await;
        assert_eq!(
            (response.status, response.header("x-tollgate-ignored")),
            (200, Some("anthropic-beta"))
        );
        let sent = scene.upstream.requests().pop().unwrap();
        assert_eq!(sent.header("anthropic-beta"), None);

        let calls = scene.upstream.request_count();
        let response = ask(NATIVE, "not a name").await;
        let error = &response.json()["error"];
        assert_eq!(
            (response.status, &error["code"], &error["param"]),
            (400, &json!("invalid_parameter"), &json!("anthropic-beta"))
        );
        assert_eq!(scene.upstream.request_count(), calls);
    }
    scene.finish().await;
}
