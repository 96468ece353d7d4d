//! What is taken out of the bytes of a request, so that its tokens can be put in, is there.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

const SAID: &str = "Say \"é\"\n\u{1F44D}\u{0}/";

fn call(format: Format, body: &Value) -> TextCall {
    TextCall::new(format, "m".into(), Bytes::from(body.to_string()))
}

/// Requests of every format with so many texts that a model reads as they are, and much else.
fn requests() -> Vec<(Format, Value, usize)> {
    let chat = json!({"model": "m", "messages": [
        {"role": "system", "content": SAID},
        {"role": "user", "name": SAID, "content": [{"type": "text", "text": SAID}, {"type": "text", "text": SAID}]},
        {"role": "assistant", "content": null, "refusal": SAID, "reasoning_content": SAID, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1e5}"}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": SAID}
    ], "tools": [{"type": "function", "function": {"name": "f", "description": SAID}}]});
    let messages = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": SAID}], "messages": [
        {"role": "user", "content": SAID},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1e5}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": SAID}]},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": SAID}}
        ]}
    ]});
    let responses = json!({"model": "m", "instructions": SAID, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": SAID}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\": 1e5}"},
        {"type": "function_call_output", "call_id": "a", "output": SAID}
    ]});
    let contents = json!({"systemInstruction": {"parts": [{"text": SAID}]}, "contents": [
        {"role": "user", "parts": [{"text": SAID}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1e5}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"x": [1e5, SAID]}}}]}
    ]});
    vec![
        (Format::ChatCompletions, chat, 5),
        (Format::Messages, messages, 3),
        (Format::Responses, responses, 3),
        (Format::GenerateContent, contents, 3),
        (
            Format::Completions,
            json!({"model": "m", "prompt": [SAID, SAID]}),
            2,
        ),
        (Format::Completions, json!({"model": "m", "prompt": [1, 2]}), 0),
        (Format::Completions, json!({"model": "m", "prompt": SAID}), 1),
    ]
}

#[test]
fn every_text_that_is_counted_stands_in_the_body() {
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
fn a_call_that_was_changed_is_counted_as_it_is_sent() {
    let (format, body, _) = requests().remove(0);
    let mut changed = call(format, &body);
    let mut request = hub::decode_request(format, &changed.body).unwrap();
    request.messages.truncate(1);
    changed.common = Some(std::sync::Arc::new(request));
    changed.body = Bytes::new();
    assert_eq!(changed.texts_to_count(), [SAID]);
}

#[test]
fn inputs_of_embeddings_are_counted_unless_they_are_tokens() {
    for (input, expected) in [
        (json!([SAID, "b"]), vec![SAID, "b"]),
        (json!(SAID), vec![SAID]),
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
