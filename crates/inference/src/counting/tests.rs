//! Tests that exactly the counted texts are subtracted from the byte bound of a request.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

const SAMPLE_TEXT: &str = "Say \"é\"\n\u{1F44D}\u{0}/";

fn call(format: Format, body: &Value) -> TextCall {
    TextCall::new(format, "m".into(), Bytes::from(body.to_string()))
}

/// Returns requests of every format, each with the number of its texts that reach the model
/// unchanged. The requests also have other content.
fn requests() -> Vec<(Format, Value, usize)> {
    let chat = json!({"model": "m", "messages": [
        {"role": "system", "content": SAMPLE_TEXT},
        {"role": "user", "name": SAMPLE_TEXT, "content": [{"type": "text", "text": SAMPLE_TEXT}, {"type": "text", "text": SAMPLE_TEXT}]},
        {"role": "assistant", "content": null, "refusal": SAMPLE_TEXT, "reasoning_content": SAMPLE_TEXT, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1e5}"}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": SAMPLE_TEXT}
    ], "tools": [{"type": "function", "function": {"name": "f", "description": SAMPLE_TEXT}}]});
    let messages = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": SAMPLE_TEXT}], "messages": [
        {"role": "user", "content": SAMPLE_TEXT},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1e5}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": SAMPLE_TEXT}]},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": SAMPLE_TEXT}}
        ]}
    ]});
    let responses = json!({"model": "m", "instructions": SAMPLE_TEXT, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": SAMPLE_TEXT}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\": 1e5}"},
        {"type": "function_call_output", "call_id": "a", "output": SAMPLE_TEXT}
    ]});
    let contents = json!({"systemInstruction": {"parts": [{"text": SAMPLE_TEXT}]}, "contents": [
        {"role": "user", "parts": [{"text": SAMPLE_TEXT}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1e5}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"x": [1e5, SAMPLE_TEXT]}}}]}
    ]});
    vec![
        (Format::ChatCompletions, chat, 5),
        (Format::Messages, messages, 3),
        (Format::Responses, responses, 3),
        (Format::GenerateContent, contents, 3),
        (
            Format::Completions,
            json!({"model": "m", "prompt": [SAMPLE_TEXT, SAMPLE_TEXT]}),
            2,
        ),
        (Format::Completions, json!({"model": "m", "prompt": [1, 2]}), 0),
        (
            Format::Completions,
            json!({"model": "m", "prompt": SAMPLE_TEXT}),
            1,
        ),
    ]
}

#[test]
fn counted_texts_appear_in_the_body() {
    for (format, body, expected) in requests() {
        let mut rest = body.to_string();
        let texts = call(format, &body).texts_to_count();
        assert_eq!(texts.len(), expected, "{format:?}: {texts:?}");
        for text in texts {
            let quoted = json!(text).to_string();
            let found = [&*quoted, &*text]
                .into_iter()
                .find_map(|form| Some((rest.find(form)?, form.len())));
            let (start, length) = found.unwrap_or_else(|| panic!("{format:?}: {text} is not in {rest}"));
            assert!(length >= text.len());
            rest.replace_range(start..start + length, "");
        }
    }
}

#[test]
fn changed_calls_are_counted_as_sent() {
    let (format, body, _) = requests().remove(0);
    let mut changed = call(format, &body);
    let mut request = to_common::decode_request(format, &changed.body).unwrap();
    request.messages.truncate(1);
    changed.common = Some(std::sync::Arc::new(request));
    changed.body = Bytes::new();
    assert_eq!(changed.texts_to_count(), [SAMPLE_TEXT]);
}

#[test]
fn embedding_texts_are_counted_and_tokens_are_not() {
    for (input, expected) in [
        (json!([SAMPLE_TEXT, "b"]), vec![SAMPLE_TEXT, "b"]),
        (json!(SAMPLE_TEXT), vec![SAMPLE_TEXT]),
        (json!([[1], [2, 3]]), vec![]),
    ] {
        let call = EmbedCall {
            upstream_model: "m".into(),
            outline: None,
            body: Bytes::from(json!({"model": "m", "input": input}).to_string()),
        };
        assert_eq!(call.texts_to_count(), expected, "{input}");
    }
}
