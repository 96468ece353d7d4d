//! The simulator in this format: the first calls that every client makes.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{RESPONSES, SIM, assert_object, ended, events_of, saying, send, whole};
use crate::scene::{FREE, PROVIDER, Scene, assert_error};

/// A model with text input only.
const BARE: &str = "acme/bare";

#[tokio::test]
async fn a_text_and_items_are_answered() {
    let scene = Scene::start().await;
    for input in [
        json!("Hi there"),
        json!([{"role": "user", "content": "Hi there"}]),
        json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi there"}]}]),
    ] {
        let members = json!({
            "input": input, "instructions": "Be kind.", "metadata": {"a": "b"}, "max_output_tokens": 16,
            "temperature": 0.25, "tool_choice": "none", "store": true, "safety_identifier": "s",
            "tools": [{"type": "function", "name": "f"}],
        });
        let body = whole(&send(&scene, &saying(SIM, "", members)).await);
        assert_eq!(
            body["output"][0]["content"],
            json!([{"type": "output_text", "text": "Hi there", "annotations": [], "logprobs": []}])
        );
        assert!(body["output"][0]["id"].as_str().unwrap().starts_with("msg_"));
        assert_eq!(
            (&body["model"], &body["status"]),
            (&json!(SIM), &json!("completed"))
        );
        assert_eq!(
            (&body["instructions"], &body["metadata"]),
            (&json!("Be kind."), &json!({"a": "b"}))
        );
        assert_eq!(
            (&body["max_output_tokens"], &body["temperature"]),
            (&json!(16), &json!(0.25))
        );
        assert_eq!(
            (&body["tool_choice"], &body["safety_identifier"]),
            (&json!("none"), &json!("s"))
        );
        assert_eq!(
            body["tools"],
            json!([{"type": "function", "name": "f", "description": null, "parameters": null, "strict": null}])
        );
        assert!(body["completed_at"].as_i64() >= body["created_at"].as_i64());
        assert_eq!(body["usage"]["total_tokens"], {
            let count = |name: &str| body["usage"][name].as_u64().unwrap();
            count("input_tokens") + count("output_tokens")
        });
    }
    let response = scene
        .client()
        .send(&Request::json(RESPONSES, &saying(SIM, "x", json!({}))))
        .await;
    assert_error("no key", &response, "missing_api_key", None);
    scene.finish().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_whole_response() {
    let scene = Scene::start().await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    for (text, members, status) in [
        ("one two three", json!({}), "completed"),
        (
            "[[sim tokens=5 reason=3]]",
            json!({"reasoning": {"effort": "low", "summary": "auto"}}),
            "completed",
        ),
        ("[[sim tokens=5 reason=3]]", json!({}), "completed"),
        (
            "[[sim tokens=3 tool=f:{\"x\":[1,2]} tool=f:{}]]",
            json!({}),
            "completed",
        ),
        ("[[sim refuse]]", json!({}), "completed"),
        (
            "[[sim tokens=300]]",
            json!({"max_output_tokens": 20}),
            "incomplete",
        ),
        ("one two", json!({"top_logprobs": 1}), "completed"),
    ] {
        let mut body = saying(SIM, text, members);
        body["tools"] = tools.clone();
        let first = send(&scene, &body).await;
        let mut answer = whole(&first);
        assert_eq!(answer["status"], status, "{text}");
        body["stream"] = json!(true);
        let second = send(&scene, &body).await;
        let mut streamed = ended(&events_of(&second));
        assert_object(&streamed, second.request_id());
        for (response, object) in [(&first, &mut answer), (&second, &mut streamed)] {
            let row = scene.row(response.request_id()).await;
            assert_eq!(row["cost"], object["usage"]["cost"], "{text}");
            assert_eq!(row["endpoint"], RESPONSES);
            remove_ids_and_times(object);
        }
        // Each chunk of a stream counts one token, like each word of a whole answer.
        assert_eq!(streamed, answer, "{text}");
        if status == "incomplete" {
            assert_eq!(
                answer["incomplete_details"],
                json!({"reason": "max_output_tokens"})
            );
            assert_eq!(answer["completed_at"], Value::Null);
        }
    }
    scene.finish().await;
}

/// Removes ids and times from a response.
fn remove_ids_and_times(object: &mut Value) {
    for name in ["id", "created_at", "completed_at"] {
        object[name] = Value::Null;
    }
    for item in object["output"].as_array_mut().unwrap() {
        item["id"] = Value::Null;
    }
    // The simulator derives call ids from the request body, which differs for streams.
    for item in object["output"].as_array_mut().unwrap() {
        if item.get("call_id").is_some() {
            item["call_id"] = Value::Null;
        }
    }
}

#[tokio::test]
async fn reasoning_is_shown_when_a_summary_is_requested() {
    let scene = Scene::start().await;
    for (reasoning, shown) in [
        (json!({"effort": "low"}), 0),
        (json!({"effort": "low", "summary": "auto"}), 1),
        (Value::Null, 0),
    ] {
        let body = saying(SIM, "[[sim tokens=2 reason=3]]", json!({"reasoning": reasoning}));
        let answer = whole(&send(&scene, &body).await);
        let item = &answer["output"][0];
        assert_eq!(item["type"], "reasoning", "{answer}");
        assert_eq!(item["summary"].as_array().unwrap().len(), shown);
        assert_eq!(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_tool_loop_completes() {
    let scene = Scene::start().await;
    let tools = json!([
        {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {"const": "Oslo"}}, "required": ["city"]}},
        {"type": "custom", "name": "shout"},
    ]);
    let first = saying(
        SIM,
        "[[sim tool=weather:{} tool=weather:{\"city\":\"Rome\"} tool=shout:{\"x\":1}]]",
        json!({"tools": tools}),
    );
    for stream in [false, true] {
        let mut body = first.clone();
        body["stream"] = json!(stream);
        let response = send(&scene, &body).await;
        let answer = if stream {
            ended(&events_of(&response))
        } else {
            whole(&response)
        };
        let output = answer["output"].as_array().unwrap();
        let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["function_call", "function_call", "custom_tool_call"],
            "{answer}"
        );
        assert_eq!(output[1]["arguments"], "{\"city\":\"Rome\"}");
        let mut input = vec![json!({"role": "user", "content": "Weather?"})];
        input.extend(output.iter().cloned());
        for (item, said) in output.iter().zip(["rain", "sun", "HEY"]) {
            let kind = format!("{}_output", item["type"].as_str().unwrap());
            input.push(json!({"type": kind, "call_id": item["call_id"], "output": said}));
        }
        let body = saying(SIM, "", json!({"tools": tools, "input": input}));
        let last = whole(&send(&scene, &body).await);
        assert_eq!(last["output"][0]["content"][0]["text"], "HEY", "{last}");
        input.last_mut().unwrap()["call_id"] = json!("another");
        let body = saying(SIM, "", json!({"tools": tools, "input": input}));
        let refused = send(&scene, &body).await;
        assert_error("no call", &refused, "invalid_parameter", Some("input[6].call_id"));
    }
    scene.finish().await;
}

#[tokio::test]
async fn structured_output_is_requested_in_text_format() {
    let scene = Scene::start().await;
    let schema = json!({"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
    let body = saying(SIM, "go", json!({"text": {"format": format, "verbosity": "low"}}));
    let answer = whole(&send(&scene, &body).await);
    assert_eq!(answer["output"][0]["content"][0]["text"], "{\"n\":7}");
    assert_eq!(answer["text"]["format"]["description"], Value::Null);
    assert_eq!(answer["text"]["verbosity"], "low");
    let body = saying(SIM, "go", json!({"text": {"format": {"type": "json_object"}}}));
    let answer = whole(&send(&scene, &body).await);
    assert_eq!(answer["output"][0]["content"][0]["text"], "{\"text\":\"go\"}");
    scene.finish().await;
}

#[tokio::test]
async fn images_are_accepted_if_the_model_accepts_them() {
    let bare = format!(
        "[models.\"{BARE}\"]\ntargets = [\"{PROVIDER}/bare-v1\"]\nprices = {{ input = \"1\", output = \"1\" }}\ninput = [\"text\"]\n"
    );
    let scene = Scene::start_with(&bare).await;
    let input = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
    ]}]);
    let answer = whole(&send(&scene, &saying(SIM, "", json!({"input": input}))).await);
    assert_eq!(answer["output"][0]["content"][0]["text"], "look");
    let refused = send(&scene, &saying(BARE, "", json!({"input": input}))).await;
    assert_error("images", &refused, "unsupported_parameter", Some("input"));
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_stream_ends_with_an_error_and_costs_nothing() {
    let scene = Scene::start().await;
    for text in [
        "[[sim tokens=9 cut=4]]",
        "[[sim tokens=9 cut=usage]]",
        "[[sim tokens=9 cut=4 error=upstream_timeout]]",
    ] {
        let before = scene.balance().await.credits;
        let response = send(&scene, &saying(SIM, text, json!({"stream": true}))).await;
        let events = events_of(&response);
        let [.., error_event, failed] = &*events else {
            panic!("{events:?}")
        };
        assert_eq!(
            (&error_event["type"], &failed["type"]),
            (&json!("error"), &json!("response.failed"))
        );
        assert_eq!(error_event["code"], error_event["error"]["code"]);
        assert_object(&failed["response"], response.request_id());
        assert_eq!(failed["response"]["error"]["code"], error_event["code"]);
        assert!(
            !response.text().contains("response.completed"),
            "{}",
            response.text()
        );
        assert_eq!(scene.settled().await.credits, before);
    }
    let refused = send(
        &scene,
        &saying(SIM, "[[sim error=model_unavailable]]", json!({"stream": true})),
    )
    .await;
    assert_error("before the first chunk", &refused, "model_unavailable", None);
    scene.finish().await;
}

#[tokio::test]
async fn tokens_are_counted_without_a_call() {
    let scene = Scene::start().await;
    let path = "/v1/responses/input_tokens";
    for (model, counting) in [(SIM, "exact"), (FREE, "upper_bound")] {
        let body = saying(model, "one two three", json!({}));
        let response = scene
            .client()
            .send(&Request::json(path, &body).key(&scene.key.secret))
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("x-tollgate-counting"), Some(counting));
        let counted = response.json();
        assert_eq!(
            (&counted["object"], &counted["counting"]),
            (&json!("response.input_tokens"), &json!(counting))
        );
        assert!(counted["input_tokens"].as_u64().unwrap() >= 3);
    }
    let response = scene
        .client()
        .send(&Request::json(path, &json!({"model": SIM})).key(&scene.key.secret))
        .await;
    assert_error("no input", &response, "missing_required_parameter", Some("input"));
    scene.nothing_happened().await;
    scene.finish().await;
}
