//! Callers of this format with a model whose provider uses chat completions.

use serde_json::json;
use tollgate_testkit::upstream::{Answer, Reply};

use super::{assert_object, ended, events_of, saying, scene, send, whole};
use crate::scene::{MODEL, PLAIN, assert_error};

#[tokio::test]
async fn a_conversation_is_converted_to_the_other_format() {
    let scene = scene().await;
    let call =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{\"x\": 1}"});
    let result = |id: &str, output| json!({"type": "function_call_output", "call_id": id, "output": output});
    let members = json!({
        "instructions": "be brief",
        "input": [
            {"role": "developer", "content": "now"},
            {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so", "annotations": []}]},
            call("a"), call("b"), result("a", json!("1")), result("b", json!([{"type": "input_text", "text": "2"}])),
            {"role": "user", "content": "and?"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "max_output_tokens": 50,
        "text": {"verbosity": "low"}, "prompt_cache_key": "k", "truncation": "auto", "metadata": {"a": "b"},
    });
    scene.upstream.push(Reply::answer(
        Answer::calling("f", &json!({"x": 2})).tool_call("f", &json!({})),
    ));
    let response = send(&scene, &saying(MODEL, "", members)).await;
    let answer = whole(&response);
    assert_eq!(answer["output"][0]["type"], "function_call");
    assert_eq!(answer["output"][1]["arguments"], "{}");
    assert_eq!(
        response.header("x-tollgate-ignored"),
        Some("prompt_cache_key,truncation")
    );
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    let called = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}});
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "system", "content": "now"},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "so", "tool_calls": [called("a"), called("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "and?"},
        ])
    );
    assert_eq!((&sent["verbosity"], sent.get("metadata")), (&json!("low"), None));
    scene.finish().await;
}

#[tokio::test]
async fn streams_of_the_other_format_are_converted() {
    let scene = scene().await;
    let answer = || {
        Answer::words(3)
            .reasoning(2)
            .tool_call("f", &json!({"x": 1}))
            .tool_call("g", &json!({}))
    };
    let asked = json!({"stream": true, "reasoning": {"summary": "auto"}, "tools": [{"type": "function", "name": "f"}]});
    scene.upstream.push(Reply::answer(answer()));
    let response = send(&scene, &saying(MODEL, "go", asked)).await;
    let streamed = ended(&events_of(&response));
    assert_object(&streamed, response.request_id());
    let output = streamed["output"].as_array().unwrap();
    let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(output[0]["summary"][0]["text"], "r1 r2 ");
    assert_eq!(output[1]["content"][0]["text"], "w1 w2 w3");
    let row = scene.row(response.request_id()).await;
    assert_eq!(row["cost"], streamed["usage"]["cost"]);
    scene.finish().await;
}

#[tokio::test]
async fn parameters_without_an_equivalent_are_refused() {
    let scene = scene().await;
    let call = json!({"type": "local_shell_call", "call_id": "a", "action": {}});
    for (members, param) in [
        (json!({"tools": [{"type": "local_shell"}]}), "tools[0].type"),
        (
            json!({"input": [{"role": "user", "content": "x"}, call, {"role": "user", "content": "y"}]}),
            "input[1]",
        ),
        (
            json!({"input": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}),
            "input[1]",
        ),
    ] {
        let response = send(&scene, &saying(MODEL, "hi", members)).await;
        assert_error(param, &response, "unsupported_parameter", Some(param));
    }
    scene.nothing_happened().await;
    // A model without reasoning may ignore the effort.
    let asked = json!({"reasoning": {"effort": "high"}});
    let response = send(&scene, &saying(PLAIN, "hi", asked)).await;
    whole(&response);
    assert_eq!(response.header("x-tollgate-ignored"), Some("reasoning"));
    scene.finish().await;
}
