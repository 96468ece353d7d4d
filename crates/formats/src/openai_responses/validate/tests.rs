//! Tables of accepted and refused bodies. The API tests send more such bodies to the built binary.

use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::*;

#[test]
fn keys_may_come_in_any_order() {
    for text in [
        r#"{"input":[{"content":[{"text":"x","type":"input_text"}],"role":"user"}],"model":"m"}"#,
        r#"{"model":"m","input":[{"arguments":"","name":"f","call_id":"a","type":"function_call"}],"tools":null}"#,
        r#"{"input":"","tools":[{"name":"f","type":"function"}],"tool_choice":"required","model":"m"}"#,
        r#"{"stream_options":{},"stream":true,"input":"x","model":"m"}"#,
        r#"{"model":"m","previous_response_id":"r"}"#,
        r#"{"model":"m","input":[],"previous_response_id":"r"}"#,
    ] {
        validate(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn fields_are_sent_once() {
    for (text, param) in [
        (r#"{"model":"m","model":"n"}"#, "model"),
        (
            r#"{"input":[{"role":"user","content":"a","content":"b"}]}"#,
            "input[0].content",
        ),
        (
            r#"{"input":[{"role":"user","role":"user","content":"b"}]}"#,
            "input[0].role",
        ),
        (
            r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"a","text":"b"}]}]}"#,
            "input[0].content[0].text",
        ),
        (
            r#"{"reasoning":{"effort":"low","effort":"high"}}"#,
            "reasoning.effort",
        ),
        (
            r#"{"tools":[{"type":"function","name":"f","name":"g"}]}"#,
            "tools[0].name",
        ),
        (r#"{"metadata":{"a":"1","a":"2"}}"#, "metadata.a"),
    ] {
        let error = validate(text.as_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::InvalidParameter, Some(param)),
            "{text}"
        );
    }
}

#[test]
fn media_are_counted_wherever_they_stand() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
    let file = json!({"type": "input_file", "file_data": "AAAA"});
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}});
    let text = json!({"model": "m", "input": [
        {"role": "user", "content": [image, file, audio]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": ""},
        {"type": "function_call_output", "call_id": "a", "output": [image]},
    ]})
    .to_string();
    let head = validate(text.as_bytes()).unwrap();
    let url = image["image_url"].as_str().unwrap().len() as u64;
    assert_eq!((head.media.images, head.media.files, head.media.audio), (2, 1, 1));
    assert_eq!((head.media.inline_bytes, head.items), (2 * url + 8, 3));
}

#[test]
fn ignored_and_own_hints_are_separate() {
    let body = json!({"model": "m", "input": "x", "labels": {}, "context_management": [], "prompt_cache_key": "k",
        "truncation": "auto", "max_tool_calls": 2});
    let text = body.to_string();
    let head = validate(text.as_bytes()).unwrap();
    assert_eq!(
        head.ignored_hints().collect::<Vec<_>>(),
        ["labels", "context_management"]
    );
    assert_eq!(
        head.own_hints().collect::<Vec<_>>(),
        ["prompt_cache_key", "truncation", "max_tool_calls"]
    );
    let plain: Value = json!({"model": "m", "input": "x", "truncation": "disabled"});
    assert_eq!(
        validate(plain.to_string().as_bytes())
            .unwrap()
            .own_hints()
            .count(),
        0
    );
}
