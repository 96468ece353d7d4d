//! Bodies that are not JSON or not a chat request.

use serde_json::{Value, json};

use super::{Case, check, message};
use crate::scene::{MODEL, hello};

#[tokio::test]
async fn malformed_json_is_refused() {
    let whole = hello(json!({})).to_string();
    let nested = |depth: usize| {
        format!(
            r#"{{"model":"{MODEL}","x":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let invalid = |what: &str, body: Vec<u8>| Case::new(what, body, "invalid_json", None);
    let mut not_utf8 = whole.replace("Hi there", "Hi @").into_bytes();
    let place = not_utf8.iter().position(|byte| *byte == b'@').unwrap();
    not_utf8[place] = 0xff;
    check(vec![
        invalid("nothing", Vec::new()),
        invalid("white space", b" \n\t ".to_vec()),
        invalid("cut", whole[..whole.len() - 1].into()),
        invalid("cut in a string", whole[..20].into()),
        invalid("more after the end", format!("{whole} x").into()),
        invalid("two objects", format!("{whole}{whole}").into()),
        invalid("a comma too many", br#"{"model":"m",}"#.to_vec()),
        invalid("single quotes", br#"{'model':'m'}"#.to_vec()),
        invalid("a comment", br#"{/* m */"model":"m"}"#.to_vec()),
        invalid("not a number", br#"{"model":"m","temperature":NaN}"#.to_vec()),
        invalid(
            "no number that JSON has",
            br#"{"model":"m","temperature":01}"#.to_vec(),
        ),
        invalid(
            "a number beyond all",
            br#"{"model":"m","temperature":1e999}"#.to_vec(),
        ),
        invalid("a line end in a string", b"{\"model\":\"a\nb\"}".to_vec()),
        invalid("half a surrogate", br#"{"model":"\ud800"}"#.to_vec()),
        invalid("an unknown escape", br#"{"model":"\x41"}"#.to_vec()),
        invalid("a byte order mark", [b"\xef\xbb\xbf", whole.as_bytes()].concat()),
        invalid("not UTF-8", not_utf8),
        invalid(
            "UTF-16",
            whole.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        ),
        invalid("a form", b"model=m&messages=Hi".to_vec()),
        invalid("65 deep", nested(64).into()),
        invalid("a depth bomb", "[".repeat(1 << 20).into()),
        invalid("a depth bomb of objects", "{\"a\":".repeat(1 << 18).into()),
        invalid(
            "a million values",
            format!(r#"{{"model":"m","x":[{}0]}}"#, "0,".repeat(1_000_000)).into(),
        ),
    ])
    .await;
}

#[tokio::test]
async fn bodies_that_are_not_chat_requests_are_refused() {
    let case = |body: Value, code, param| Case::new(&body.to_string(), body.to_string(), code, param);
    let missing = "missing_required_parameter";
    let mut cases: Vec<Case> = [json!([]), json!("hello"), json!(null), json!(17), json!(true)]
        .into_iter()
        .map(|body| case(body, "invalid_parameter", None))
        .collect();
    cases.extend([
        case(json!({}), missing, Some("model")),
        case(
            json!({"messages": [{"role": "user", "content": "Hi"}]}),
            missing,
            Some("model"),
        ),
        case(json!({"model": MODEL}), missing, Some("messages")),
        case(hello(json!({"model": null})), "invalid_parameter", Some("model")),
        case(hello(json!({"model": ""})), "invalid_parameter", Some("model")),
        case(hello(json!({"model": ["a"]})), "invalid_parameter", Some("model")),
        case(
            hello(json!({"model": "acme/none"})),
            "model_not_found",
            Some("model"),
        ),
        case(
            hello(json!({"model": "x".repeat(100_000)})),
            "model_not_found",
            Some("model"),
        ),
        case(
            hello(json!({"model": "../../etc/passwd"})),
            "model_not_found",
            Some("model"),
        ),
        case(
            hello(json!({"model": "elsewhere/large-v2"})),
            "model_not_found",
            Some("model"),
        ),
        case(
            hello(json!({"colour": "red"})),
            "unknown_parameter",
            Some("colour"),
        ),
        case(
            hello(json!({"max_token": 5})),
            "unknown_parameter",
            Some("max_token"),
        ),
        case(hello(json!({"Model": MODEL})), "unknown_parameter", Some("Model")),
    ]);
    check(cases).await;
}

#[tokio::test]
async fn duplicate_object_keys_are_refused() {
    let twice = |what: &str, body: &str, param| Case::new(what, body, "invalid_parameter", Some(param));
    check(vec![
        twice("model", r#"{"model":"acme/free","model":"acme/large","messages":[{"role":"user","content":"Hi"}]}"#, "model"),
        twice(
            "escaped",
            r#"{"max_tokens":1,"max_tok\u0065ns":4096,"model":"acme/large","messages":[{"role":"user","content":"Hi"}]}"#,
            "max_tokens",
        ),
        twice(
            "content",
            r#"{"model":"acme/large","messages":[{"role":"user","content":"Hi","content":"Ho"}]}"#,
            "messages[0].content",
        ),
        twice(
            "unknown",
            r#"{"model":"acme/large","top_k":1,"top_k":2,"messages":[{"role":"user","content":"Hi"}]}"#,
            "top_k",
        ),
        twice(
            "metadata",
            r#"{"model":"acme/large","metadata":{"a":"1","a":"2"},"messages":[{"role":"user","content":"Hi"}]}"#,
            "metadata.a",
        ),
    ])
    .await;
}

#[tokio::test]
async fn wrong_types_are_refused_at_every_depth() {
    let invalid = |body: Value, param| {
        Case::new(
            &body.to_string(),
            body.to_string(),
            "invalid_parameter",
            Some(param),
        )
    };
    let missing = |body: Value, param| {
        Case::new(
            &body.to_string(),
            body.to_string(),
            "missing_required_parameter",
            Some(param),
        )
    };
    let part =
        |part: Value| message(json!({"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}));
    let call = |call: Value| message(json!({"role": "assistant", "tool_calls": [call]}));
    let tool = |tool: Value| hello(json!({"tools": [tool]}));
    let format = |format: Value| hello(json!({"response_format": format}));
    let schema = |schema: Value| format(json!({"type": "json_schema", "json_schema": schema}));
    check(vec![
        invalid(hello(json!({"messages": []})), "messages"),
        invalid(hello(json!({"messages": {}})), "messages"),
        invalid(hello(json!({"messages": null})), "messages"),
        invalid(hello(json!({"messages": ["Hi"]})), "messages[0]"),
        missing(message(json!({})), "messages[1].role"),
        missing(message(json!({"content": "Hi"})), "messages[1].role"),
        invalid(
            message(json!({"role": "wizard", "content": "Hi"})),
            "messages[1].role",
        ),
        invalid(message(json!({"role": 1, "content": "Hi"})), "messages[1].role"),
        missing(message(json!({"role": "user"})), "messages[1].content"),
        invalid(
            message(json!({"role": "user", "content": null})),
            "messages[1].content",
        ),
        invalid(
            message(json!({"role": "user", "content": 5})),
            "messages[1].content",
        ),
        invalid(
            message(json!({"role": "user", "content": {}})),
            "messages[1].content",
        ),
        invalid(
            message(json!({"role": "user", "content": "Hi", "name": 5})),
            "messages[1].name",
        ),
        invalid(
            message(json!({"role": "user", "content": ["Hi"]})),
            "messages[1].content[0]",
        ),
        missing(part(json!({"text": "Hi"})), "messages[1].content[1].type"),
        missing(part(json!({"type": "text"})), "messages[1].content[1].text"),
        invalid(
            part(json!({"type": "text", "text": 5})),
            "messages[1].content[1].text",
        ),
        invalid(part(json!({"type": "hologram"})), "messages[1].content[1].type"),
        invalid(
            part(json!({"type": "refusal", "refusal": "No"})),
            "messages[1].content[1].type",
        ),
        missing(
            part(json!({"type": "image_url"})),
            "messages[1].content[1].image_url",
        ),
        missing(
            part(json!({"type": "image_url", "image_url": {}})),
            "messages[1].content[1].image_url.url",
        ),
        invalid(
            part(json!({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}})),
            "messages[1].content[1].image_url.url",
        ),
        invalid(
            part(json!({"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "best"}})),
            "messages[1].content[1].image_url.detail",
        ),
        invalid(
            part(json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}})),
            "messages[1].content[1].input_audio.format",
        ),
        invalid(
            part(json!({"type": "file", "file": {}})),
            "messages[1].content[1].file",
        ),
        // Tool results and tool calls.
        missing(
            message(json!({"role": "tool", "content": "42"})),
            "messages[1].tool_call_id",
        ),
        invalid(
            message(json!({"role": "tool", "content": "42", "tool_call_id": "call_1"})),
            "messages[1].tool_call_id",
        ),
        invalid(
            message(json!({"role": "user", "content": "Hi", "tool_calls": []})),
            "messages[1].tool_calls",
        ),
        missing(call(json!({})), "messages[1].tool_calls[0].id"),
        missing(call(json!({"id": "c"})), "messages[1].tool_calls[0].type"),
        missing(
            call(json!({"id": "c", "type": "function"})),
            "messages[1].tool_calls[0].function",
        ),
        invalid(
            call(json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}})),
            "messages[1].tool_calls[0].function.arguments",
        ),
        // Tool definitions.
        invalid(hello(json!({"tools": {}})), "tools"),
        missing(tool(json!({})), "tools[0].type"),
        invalid(tool(json!({"type": "hammer"})), "tools[0].type"),
        missing(tool(json!({"type": "function"})), "tools[0].function"),
        missing(
            tool(json!({"type": "function", "function": {}})),
            "tools[0].function.name",
        ),
        invalid(
            tool(json!({"type": "function", "function": {"name": "f", "parameters": "none"}})),
            "tools[0].function.parameters",
        ),
        invalid(
            tool(json!({"type": "function", "function": {"name": "f", "strict": "yes"}})),
            "tools[0].function.strict",
        ),
        invalid(hello(json!({"tool_choice": "always"})), "tool_choice"),
        invalid(hello(json!({"tool_choice": 1})), "tool_choice"),
        missing(
            hello(json!({"tool_choice": {"type": "function"}})),
            "tool_choice.function",
        ),
        missing(
            hello(json!({"tool_choice": {"type": "function", "function": {}}})),
            "tool_choice.function.name",
        ),
        // Response formats.
        invalid(format(json!("json")), "response_format"),
        missing(format(json!({})), "response_format.type"),
        invalid(format(json!({"type": "yaml"})), "response_format.type"),
        missing(
            format(json!({"type": "json_schema"})),
            "response_format.json_schema",
        ),
        missing(schema(json!({"schema": {}})), "response_format.json_schema.name"),
        invalid(
            schema(json!({"name": "a b", "schema": {}})),
            "response_format.json_schema.name",
        ),
        invalid(
            schema(json!({"name": "a", "schema": []})),
            "response_format.json_schema.schema",
        ),
        // Fields that depend on each other.
        invalid(
            hello(json!({"stream_options": {"include_usage": true}})),
            "stream_options",
        ),
        invalid(
            hello(json!({"stream": true, "stream_options": {"include_usage": 1}})),
            "stream_options.include_usage",
        ),
        invalid(hello(json!({"top_logprobs": 2})), "top_logprobs"),
        invalid(
            hello(json!({"max_tokens": 5, "max_completion_tokens": 6})),
            "max_tokens",
        ),
        missing(hello(json!({"modalities": ["text", "audio"]})), "audio"),
    ])
    .await;
}
