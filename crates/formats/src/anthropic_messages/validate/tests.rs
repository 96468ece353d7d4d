//! Tables of accepted and refused bodies. The API tests send further bodies to the built binary.

use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::*;

fn body(members: Value) -> String {
    let mut body =
        json!({"model": "m", "max_tokens": 2_000, "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}

#[test]
fn keys_may_come_in_any_order() {
    for text in [
        r#"{"messages":[{"content":[{"text":"x","type":"text"}],"role":"user"}],"max_tokens":1,"model":"m"}"#,
        r#"{"model":"m","max_tokens":0,"messages":[{"role":"user","content":""}],"system":null,"tools":[]}"#,
    ] {
        validate(text.as_bytes(), Version::default(), Purpose::Generate).unwrap();
    }
}

#[test]
fn fields_are_sent_once() {
    for (text, param) in [
        (r#"{"model":"m","model":"n"}"#, "model"),
        (
            r#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#,
            "messages[0].content",
        ),
        (
            r#"{"messages":[{"role":"user","role":"user","content":"a"}]}"#,
            "messages[0].role",
        ),
        (
            r#"{"thinking":{"type":"adaptive","type":"disabled"}}"#,
            "thinking.type",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}"#,
            "messages[0].content[0].text",
        ),
    ] {
        let error = validate(text.as_bytes(), Version::default(), Purpose::Generate).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::InvalidParameter, Some(param)),
            "{text}"
        );
    }
}

#[test]
fn media_are_counted_wherever_they_stand() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let pdf = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}});
    let text = body(json!({"messages": [
        {"role": "user", "content": [image, pdf]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [image]}]},
    ]}));
    let head = validate(text.as_bytes(), Version::default(), Purpose::Generate).unwrap();
    assert_eq!(
        (head.media.images, head.media.files, head.media.inline_bytes),
        (2, 1, 28)
    );
    assert_eq!(head.messages, 3);
}

#[test]
fn ignored_and_own_hints_are_separate() {
    let text = body(json!({
        "betas": ["b"], "diagnostics": {}, "service_tier": "auto", "cache_control": {"type": "ephemeral"},
        "tools": [{"name": "f", "input_schema": {}, "input_examples": [{}], "cache_control": {"type": "ephemeral"}}],
    }));
    let head = validate(text.as_bytes(), Version::default(), Purpose::Generate).unwrap();
    assert_eq!(head.ignored_hints().collect::<Vec<_>>(), ["betas", "diagnostics"]);
    let mut own: Vec<_> = head.own_hints().collect();
    own.sort_unstable();
    assert_eq!(own, ["service_tier", "tools.input_examples"]);
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{}1{}", "[".repeat(80), "]".repeat(80));
    let text = format!(r#"{{"model":"m","max_tokens":1,"messages":[],"context_management":{deep}}}"#);
    let error = validate(text.as_bytes(), Version::default(), Purpose::Generate).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidJson);
}
