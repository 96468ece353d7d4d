//! Features about tools, calls and results.

use serde_json::{Value, json};

use super::{Feature, turns};

/// Returns the members that declare the function `look` with these members, and a second function.
fn declared(chat: Value, messages: Value, responses: Value, contents: Value, is_strict: bool) -> [Value; 5] {
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"], "additionalProperties": false});
    let function = |name: &str| {
        let mut function = json!({"name": name, "description": "Looks.", "parameters": schema});
        let mut tool = json!({"name": name, "description": "Looks.", "input_schema": schema});
        if is_strict {
            function["strict"] = json!(true);
            tool["strict"] = json!(true);
        }
        (function, tool)
    };
    let all = [function("look"), function("listen")];
    let chat_tools: Vec<Value> = all
        .iter()
        .map(|(function, _)| json!({"type": "function", "function": function}))
        .collect();
    let messages_tools: Vec<Value> = all.iter().map(|(_, tool)| tool.clone()).collect();
    let responses_tools: Vec<Value> = all
        .iter()
        .map(|(function, _)| {
            let mut function = function.clone();
            function["type"] = json!("function");
            function["strict"] = json!(is_strict);
            function
        })
        .collect();
    let declarations: Vec<Value> = ["look", "listen"]
        .iter()
        .map(|name| json!({"name": name, "description": "Looks.", "parametersJsonSchema": schema}))
        .collect();
    let with = |members: Value, tools: Value| match members {
        Value::Object(mut members) => {
            members.insert("tools".to_owned(), tools);
            Value::Object(members)
        }
        _ => Value::Null,
    };
    [
        with(chat, json!(chat_tools)),
        Value::Null,
        with(messages, json!(messages_tools)),
        with(responses, json!(responses_tools)),
        with(contents, json!([{"functionDeclarations": declarations}])),
    ]
}

fn functions() -> [Value; 5] {
    chosen(json!({}), json!({}), json!({}), json!({}))
}

fn chosen(chat: Value, messages: Value, responses: Value, contents: Value) -> [Value; 5] {
    declared(chat, messages, responses, contents, false)
}

fn mode(mode: &str, names: &[&str]) -> Value {
    let mut config = json!({ "mode": mode });
    if !names.is_empty() {
        config["allowedFunctionNames"] = json!(names);
    }
    json!({"toolConfig": {"functionCallingConfig": config}})
}

/// Returns a conversation in which the model called `look`, which returned `result`; null if the
/// format does not support such a result.
fn called(chat: &Value, messages: &Value, responses: &Value, contents: &Value) -> [Value; 5] {
    let hello = json!({"role": "user", "content": "Hello."});
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"it\"}"}});
    let if_present = |result: &Value, turns: Value| if result.is_null() { Value::Null } else { turns };
    turns(
        if_present(
            chat,
            json!([
                hello,
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": chat},
            ]),
        ),
        if_present(
            messages,
            json!([
                hello,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "it"}}]},
                {"role": "user", "content": [messages]},
            ]),
        ),
        if_present(
            responses,
            json!([
                hello,
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"it\"}"},
                {"type": "function_call_output", "call_id": "call_1", "output": responses},
            ]),
        ),
        if_present(
            contents,
            json!([
                {"role": "user", "parts": [{"text": "Hello."}]},
                {"role": "model", "parts": [{"functionCall": {"id": "call_1", "name": "look", "args": {"at": "it"}}}]},
                {"role": "user", "parts": [{"functionResponse": contents}]},
            ]),
        ),
    )
}

fn text_results() -> [Value; 5] {
    called(
        &json!("A bird."),
        &json!({"type": "tool_result", "tool_use_id": "call_1", "content": "A bird."}),
        &json!("A bird."),
        &json!({"id": "call_1", "name": "look", "response": {"result": "A bird."}}),
    )
}

pub fn all() -> Vec<Feature> {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let custom = |tool: Value| json!({"tools": [tool]});
    vec![
        Feature::new("tools", "listen", functions()),
        Feature::new(
            "strict tools",
            "",
            {
                let mut requests = declared(json!({}), json!({}), json!({}), Value::Null, true);
                requests[4] = mode("VALIDATED", &[]);
                requests[4]["tools"] = functions()[4]["tools"].clone();
                requests
            },
        )
        .over(functions()),
        Feature::new(
            "a tool call is required",
            "",
            chosen(
                json!({"tool_choice": "required"}),
                json!({"tool_choice": {"type": "any"}}),
                json!({"tool_choice": "required"}),
                mode("ANY", &[]),
            ),
        )
        .over(functions()),
        Feature::new(
            "a specific tool call is required",
            "",
            chosen(
                json!({"tool_choice": {"type": "function", "function": {"name": "look"}}}),
                json!({"tool_choice": {"type": "tool", "name": "look"}}),
                json!({"tool_choice": {"type": "function", "name": "look"}}),
                mode("ANY", &["look"]),
            ),
        )
        .over(functions()),
        Feature::new(
            "a subset of tools is allowed",
            "",
            chosen(
                json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]}}}),
                Value::Null,
                json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}}),
                mode("VALIDATED", &["look"]),
            ),
        )
        .over(functions()),
        Feature::new(
            "no tool calls",
            "",
            chosen(
                json!({"tool_choice": "none"}),
                json!({"tool_choice": {"type": "none"}}),
                json!({"tool_choice": "none"}),
                mode("NONE", &[]),
            ),
        )
        .over(functions()),
        Feature::new(
            "no parallel tool calls",
            "",
            chosen(
                json!({"parallel_tool_calls": false}),
                json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
                json!({"parallel_tool_calls": false}),
                Value::Null,
            ),
        )
        .over(functions()),
        Feature::new("tool calls and results", "A bird.", text_results()),
        Feature::new(
            "a tool result with an error",
            "rror",
            called(
                &Value::Null,
                &json!({"type": "tool_result", "tool_use_id": "call_1", "content": "A bird.", "is_error": true}),
                &Value::Null,
                &json!({"id": "call_1", "name": "look", "response": {"error": "A bird."}}),
            ),
        )
        .over(text_results()),
        Feature::new(
            "an image in a tool result",
            "iVBORw0KGgo=",
            called(
                &Value::Null,
                &json!({"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "A bird."}, image]}),
                &json!([{"type": "input_text", "text": "A bird."}, {"type": "input_image", "image_url": super::media::IMAGE}]),
                &json!({"id": "call_1", "name": "look", "response": {"result": "A bird."}, "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}),
            ),
        )
        .over(text_results()),
        Feature::new(
            "a custom tool with free text",
            "recite",
            [
                custom(json!({"type": "custom", "custom": {"name": "recite"}})),
                Value::Null,
                Value::Null,
                custom(json!({"type": "custom", "name": "recite"})),
                Value::Null,
            ],
        ),
        Feature::new(
            "a provider's built-in tool",
            "bash",
            [
                Value::Null,
                Value::Null,
                custom(json!({"type": "bash_20250124", "name": "bash"})),
                Value::Null,
                Value::Null,
            ],
        ),
    ]
}
