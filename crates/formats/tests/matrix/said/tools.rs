//! Tools, calls and results.

use serde_json::{Value, json};

use super::{Feature, turns};

/// The members that declare the function `look`, and a second one, with these members beside.
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

/// A conversation in which `look` was called and `result` came back. Null where the format has no such result.
fn called(chat: &Value, messages: &Value, responses: &Value, contents: &Value) -> [Value; 5] {
    let hello = json!({"role": "user", "content": "Hello."});
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"it\"}"}});
    let if_said = |said: &Value, turns: Value| if said.is_null() { Value::Null } else { turns };
    turns(
        if_said(
            chat,
            json!([
                hello,
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": chat},
            ]),
        ),
        if_said(
            messages,
            json!([
                hello,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "it"}}]},
                {"role": "user", "content": [messages]},
            ]),
        ),
        if_said(
            responses,
            json!([
                hello,
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"it\"}"},
                {"type": "function_call_output", "call_id": "call_1", "output": responses},
            ]),
        ),
        if_said(
            contents,
            json!([
                {"role": "user", "parts": [{"text": "Hello."}]},
                {"role": "model", "parts": [{"functionCall": {"id": "call_1", "name": "look", "args": {"at": "it"}}}]},
                {"role": "user", "parts": [{"functionResponse": contents}]},
            ]),
        ),
    )
}

fn seen() -> [Value; 5] {
    called(
        &json!("A bird."),
        &json!({"type": "tool_result", "tool_use_id": "call_1", "content": "A bird."}),
        &json!("A bird."),
        &json!({"id": "call_1", "name": "look", "response": {"result": "A bird."}}),
    )
}

pub fn all() -> Vec<Feature> {
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let custom = |tool: Value| json!({"tools": [tool]});
    vec![
        Feature::new("tools", "listen", functions()),
        Feature::new(
            "tools whose schema is forced",
            "",
            {
                let mut says = declared(json!({}), json!({}), json!({}), Value::Null, true);
                says[4] = mode("VALIDATED", &[]);
                says[4]["tools"] = functions()[4]["tools"].clone();
                says
            },
        )
        .over(functions()),
        Feature::new(
            "a tool must be called",
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
            "one tool must be called",
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
            "some of the tools may be called",
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
            "no tool may be called",
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
            "one call at a time",
            "",
            chosen(
                json!({"parallel_tool_calls": false}),
                json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
                json!({"parallel_tool_calls": false}),
                Value::Null,
            ),
        )
        .over(functions()),
        Feature::new("calls and their results", "A bird.", seen()),
        Feature::new(
            "a tool that failed",
            "rror",
            called(
                &Value::Null,
                &json!({"type": "tool_result", "tool_use_id": "call_1", "content": "A bird.", "is_error": true}),
                &Value::Null,
                &json!({"id": "call_1", "name": "look", "response": {"error": "A bird."}}),
            ),
        )
        .over(seen()),
        Feature::new(
            "a picture in a result",
            "iVBORw0KGgo=",
            called(
                &Value::Null,
                &json!({"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "A bird."}, picture]}),
                &json!([{"type": "input_text", "text": "A bird."}, {"type": "input_image", "image_url": super::media::PICTURE}]),
                &json!({"id": "call_1", "name": "look", "response": {"result": "A bird."}, "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}),
            ),
        )
        .over(seen()),
        Feature::new(
            "a tool that takes free text",
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
            "a tool of one format",
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
