//! Invalid requests are refused without side effects, and the error names the parameter.

use serde_json::{Value, json};

use super::{NATIVE, SIM, saying, scene, send};
use crate::scene::assert_error;

const INVALID: &str = "invalid_parameter";
const MISSING: &str = "missing_required_parameter";
const UNSUPPORTED: &str = "unsupported_parameter";

fn item(item: Value) -> Value {
    json!({ "input": [item] })
}

fn user(part: Value) -> Value {
    item(json!({"role": "user", "content": [part]}))
}

fn tool(tool: Value) -> Value {
    json!({ "tools": [tool] })
}

fn format(format: Value) -> Value {
    json!({"text": {"format": format}})
}

fn of_settings() -> Vec<(Value, &'static str, &'static str)> {
    let pairs: Value = (0..17)
        .map(|number| (number.to_string(), json!("v")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    vec![
        (json!({"model": null}), INVALID, "model"),
        (json!({"model": ""}), INVALID, "model"),
        (json!({"model": "acme/none"}), "model_not_found", "model"),
        (json!({"input": null}), MISSING, "input"),
        (json!({"input": 7}), INVALID, "input"),
        (json!({"input": []}), INVALID, "input"),
        (json!({"messages": []}), "unknown_parameter", "messages"),
        (json!({"instructions": 7}), INVALID, "instructions"),
        (json!({"max_output_tokens": 15}), INVALID, "max_output_tokens"),
        (
            json!({"max_output_tokens": 5_000}),
            "parameter_out_of_range",
            "max_output_tokens",
        ),
        (json!({"temperature": 2.01}), INVALID, "temperature"),
        (json!({"temperature": -0.01}), INVALID, "temperature"),
        (json!({"top_p": 1.01}), INVALID, "top_p"),
        (json!({"presence_penalty": 2.01}), INVALID, "presence_penalty"),
        (json!({"frequency_penalty": -2.01}), INVALID, "frequency_penalty"),
        (json!({"top_logprobs": 21}), INVALID, "top_logprobs"),
        (json!({"top_logprobs": -1}), INVALID, "top_logprobs"),
        (json!({"max_tool_calls": 0}), INVALID, "max_tool_calls"),
        (json!({"stream": "yes"}), INVALID, "stream"),
        (json!({"store": 1}), INVALID, "store"),
        (
            json!({"stream": false, "stream_options": {"include_obfuscation": true}}),
            INVALID,
            "stream_options",
        ),
        (
            json!({"stream": true, "stream_options": {"include_usage": true}}),
            "unknown_parameter",
            "stream_options.include_usage",
        ),
        (json!({"truncation": "none"}), INVALID, "truncation"),
        (json!({"service_tier": "slow"}), INVALID, "service_tier"),
        (
            json!({"service_tier": "priority"}),
            "unsupported_parameter",
            "service_tier",
        ),
        (json!({"metadata": pairs}), INVALID, "metadata"),
        (json!({"metadata": {"k": "v".repeat(513)}}), INVALID, "metadata.k"),
        (json!({"metadata": {"k".repeat(65): "v"}}), INVALID, "metadata"),
        (json!({"metadata": {"k": 7}}), INVALID, "metadata.k"),
        (
            json!({"safety_identifier": "s".repeat(65)}),
            INVALID,
            "safety_identifier",
        ),
        (json!({"include": ["everything"]}), INVALID, "include[0]"),
        (
            json!({"reasoning": {"effort": "most"}}),
            INVALID,
            "reasoning.effort",
        ),
        (
            json!({"reasoning": {"summary": "long"}}),
            INVALID,
            "reasoning.summary",
        ),
        (
            json!({"reasoning": {"depth": 1}}),
            "unknown_parameter",
            "reasoning.depth",
        ),
        (json!({"text": {"verbosity": "max"}}), INVALID, "text.verbosity"),
        (format(json!({})), MISSING, "text.format.type"),
        (format(json!({"type": "xml"})), INVALID, "text.format.type"),
        (
            format(json!({"type": "json_schema", "schema": {}})),
            MISSING,
            "text.format.name",
        ),
        (
            format(json!({"type": "json_schema", "name": "a"})),
            MISSING,
            "text.format.schema",
        ),
        (
            format(json!({"type": "json_schema", "name": "a b", "schema": {}})),
            INVALID,
            "text.format.name",
        ),
        (
            format(json!({"type": "json_schema", "name": "a".repeat(65), "schema": {}})),
            INVALID,
            "text.format.name",
        ),
        (json!({"background": true, "store": false}), INVALID, "background"),
        (json!({"starting_after": 4}), UNSUPPORTED, "starting_after"),
        (json!({"conversation": "conv_1"}), UNSUPPORTED, "conversation"),
        (json!({"prompt": {"id": "p"}}), UNSUPPORTED, "prompt"),
        (
            json!({"previous_response_id": "resp_1"}),
            "not_found",
            "previous_response_id",
        ),
    ]
}

fn of_input() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (item(json!(7)), INVALID, "input[0]"),
        (item(json!({})), MISSING, "input[0].type"),
        (
            item(json!({"type": "message", "content": "x"})),
            MISSING,
            "input[0].role",
        ),
        (item(json!({"role": "user"})), MISSING, "input[0].content"),
        (
            item(json!({"role": "tool", "content": "x"})),
            INVALID,
            "input[0].role",
        ),
        (
            item(json!({"role": "user", "content": 7})),
            INVALID,
            "input[0].content",
        ),
        (item(json!({"type": "thought"})), INVALID, "input[0].type"),
        (
            item(json!({"type": "item_reference", "id": "x"})),
            "not_found",
            "input[0].id",
        ),
        (
            item(json!({"type": "web_search_call", "id": "x"})),
            UNSUPPORTED,
            "input[0].type",
        ),
        (
            item(json!({"type": "compaction", "encrypted_content": "x"})),
            UNSUPPORTED,
            "input[0].type",
        ),
        (
            item(json!({"type": "function_call", "name": "f", "arguments": ""})),
            MISSING,
            "input[0].call_id",
        ),
        (
            item(json!({"type": "function_call", "call_id": "a", "arguments": ""})),
            MISSING,
            "input[0].name",
        ),
        (
            item(json!({"type": "function_call", "call_id": "a", "name": "f"})),
            MISSING,
            "input[0].arguments",
        ),
        (
            item(json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": {}})),
            INVALID,
            "input[0].arguments",
        ),
        (
            item(
                json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "", "status": "x"}),
            ),
            INVALID,
            "input[0].status",
        ),
        (
            item(json!({"type": "custom_tool_call", "call_id": "a", "name": "f"})),
            MISSING,
            "input[0].input",
        ),
        (
            item(json!({"type": "function_call_output", "call_id": "a"})),
            MISSING,
            "input[0].output",
        ),
        (
            item(json!({"type": "function_call_output", "output": "x"})),
            MISSING,
            "input[0].call_id",
        ),
        (
            item(json!({"type": "function_call_output", "call_id": "a", "output": "x"})),
            INVALID,
            "input[0].call_id",
        ),
        (
            item(
                json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_audio"}]}),
            ),
            INVALID,
            "input[0].output[0].type",
        ),
        (item(json!({"type": "reasoning"})), MISSING, "input[0].summary"),
        (
            item(json!({"type": "reasoning", "summary": [{"type": "text", "text": "x"}]})),
            INVALID,
            "input[0].summary[0].type",
        ),
        (
            item(json!({"type": "reasoning", "summary": [{"type": "summary_text"}]})),
            MISSING,
            "input[0].summary[0].text",
        ),
        (
            item(json!({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]})),
            INVALID,
            "input[0].content[0].type",
        ),
        (
            item(json!({"role": "system", "content": [{"type": "input_image", "image_url": "https://x"}]})),
            INVALID,
            "input[0].content[0].type",
        ),
        (user(json!({"text": "x"})), MISSING, "input[0].content[0].type"),
        (
            user(json!({"type": "input_text"})),
            MISSING,
            "input[0].content[0].text",
        ),
        (
            user(json!({"type": "input_text", "text": 7})),
            INVALID,
            "input[0].content[0].text",
        ),
        (
            user(json!({"type": "text", "text": "x"})),
            INVALID,
            "input[0].content[0].type",
        ),
        (
            user(json!({"type": "input_image"})),
            MISSING,
            "input[0].content[0].image_url",
        ),
        (
            user(json!({"type": "input_image", "image_url": "file:///etc/passwd"})),
            INVALID,
            "input[0].content[0].image_url",
        ),
        (
            user(json!({"type": "input_image", "image_url": "https://x", "detail": "all"})),
            INVALID,
            "input[0].content[0].detail",
        ),
        (
            user(json!({"type": "input_image", "file_id": "file-1", "image_url": "https://x"})),
            INVALID,
            "input[0].content[0].file_id",
        ),
        (
            user(json!({"type": "input_file", "file_url": "file:///etc/passwd"})),
            INVALID,
            "input[0].content[0].file_url",
        ),
        (
            user(json!({"type": "input_file"})),
            MISSING,
            "input[0].content[0].file_data",
        ),
        (
            user(json!({"type": "input_audio", "input_audio": {"data": "AA"}})),
            MISSING,
            "input[0].content[0].input_audio.format",
        ),
        (
            user(json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "ogg"}})),
            INVALID,
            "input[0].content[0].input_audio.format",
        ),
    ]
}

fn of_tools() -> Vec<(Value, &'static str, &'static str)> {
    let function = json!([{"type": "function", "name": "f"}]);
    let choosing = |choice: Value| json!({"tools": function, "tool_choice": choice});
    vec![
        (json!({"tools": {}}), INVALID, "tools"),
        (tool(json!({"name": "f"})), MISSING, "tools[0].type"),
        (tool(json!({"type": "function"})), MISSING, "tools[0].name"),
        (
            tool(json!({"type": "function", "name": "a b"})),
            INVALID,
            "tools[0].name",
        ),
        (
            tool(json!({"type": "function", "name": "f".repeat(129)})),
            INVALID,
            "tools[0].name",
        ),
        (
            tool(json!({"type": "function", "name": "f", "parameters": []})),
            INVALID,
            "tools[0].parameters",
        ),
        (
            tool(json!({"type": "function", "name": "f", "strict": "yes"})),
            INVALID,
            "tools[0].strict",
        ),
        (tool(json!({"type": "gadget"})), INVALID, "tools[0].type"),
        (tool(json!({"type": "web_search"})), UNSUPPORTED, "tools[0].type"),
        (
            tool(json!({"type": "web_search_preview_2025_03_11"})),
            UNSUPPORTED,
            "tools[0].type",
        ),
        (
            tool(json!({"type": "file_search", "vector_store_ids": ["v"]})),
            UNSUPPORTED,
            "tools[0].type",
        ),
        (
            tool(json!({"type": "mcp", "server_label": "s"})),
            UNSUPPORTED,
            "tools[0].type",
        ),
        (
            tool(json!({"type": "code_interpreter"})),
            UNSUPPORTED,
            "tools[0].type",
        ),
        (
            tool(json!({"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}})),
            MISSING,
            "tools[0].format.definition",
        ),
        (
            tool(
                json!({"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}}),
            ),
            INVALID,
            "tools[0].format.syntax",
        ),
        (
            tool(json!({"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]})),
            UNSUPPORTED,
            "tools[0].tools[0].type",
        ),
        (json!({"tool_choice": "required"}), INVALID, "tool_choice"),
        (choosing(json!("some")), INVALID, "tool_choice"),
        (choosing(json!(7)), INVALID, "tool_choice"),
        (choosing(json!({"type": "function"})), MISSING, "tool_choice.name"),
        (choosing(json!({"name": "f"})), MISSING, "tool_choice.type"),
        (
            choosing(json!({"type": "allowed_tools", "tools": []})),
            MISSING,
            "tool_choice.mode",
        ),
        (
            choosing(json!({"type": "allowed_tools", "mode": "auto"})),
            MISSING,
            "tool_choice.tools",
        ),
        (choosing(json!({"type": "mcp"})), UNSUPPORTED, "tool_choice.type"),
    ]
}

#[tokio::test]
async fn every_fault_has_its_code_and_parameter() {
    let scene = scene().await;
    let cases = of_settings().into_iter().chain(of_input()).chain(of_tools());
    for (members, code, param) in cases {
        for stream in [false, true] {
            let mut body = saying(NATIVE, "hi", members.clone());
            if body.get("stream").is_none() {
                body["stream"] = json!(stream);
            }
            let response = send(&scene, &body).await;
            assert_error(&body.to_string(), &response, code, Some(param));
        }
    }
    for (body, param) in [
        (json!({"input": "hi"}), "model"),
        (json!({"model": NATIVE}), "input"),
    ] {
        let response = send(&scene, &body).await;
        assert_error(&body.to_string(), &response, MISSING, Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn values_at_the_limits_are_accepted() {
    let scene = scene().await;
    let pairs: Value = (0..16)
        .map(|number| (number.to_string(), json!("v".repeat(512))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for members in [
        json!({"max_output_tokens": 16, "temperature": 0, "top_p": 0, "top_logprobs": 0, "max_tool_calls": 1}),
        json!({"max_output_tokens": 4096, "temperature": 2, "top_p": 1, "top_logprobs": 20}),
        json!({"metadata": pairs, "safety_identifier": "s".repeat(64)}),
        json!({"metadata": {"k".repeat(64): ""}, "presence_penalty": -2, "frequency_penalty": 2}),
        json!({"stream": true, "stream_options": {"include_obfuscation": false}, "background": false}),
        json!({"text": {"format": {"type": "text"}}, "reasoning": {}, "include": [], "tools": [], "tool_choice": "auto"}),
        json!({"text": null, "reasoning": null, "tools": null, "conversation": null, "previous_response_id": null}),
        json!({"tools": [{"type": "function", "name": "f".repeat(128)}], "tool_choice": {"type": "function", "name": "f"}}),
    ] {
        for model in [NATIVE, SIM] {
            let response = send(&scene, &saying(model, "hi", members.clone())).await;
            assert_eq!(response.status, 200, "{members} {}", response.text());
        }
    }
    scene.finish().await;
}
