use serde_json::json;

use super::*;

fn refused(code: ErrorCode, param: &str) -> Error {
    Error::new(code, "No.").with_param(param)
}

/// Returns the request after the drop and the dropped names; `None` if nothing changes.
fn after(code: ErrorCode, param: &str, request: Value) -> Option<(Value, Vec<String>)> {
    let mut rest = request.clone();
    match drop_refused(&mut rest, &refused(code, param)) {
        Some(dropped) => Some((rest, dropped)),
        None => {
            assert_eq!(rest, request, "{param}: nothing is half done");
            None
        }
    }
}

#[test]
fn refused_fields_and_hints_are_dropped_by_path() {
    use ErrorCode::{InvalidParameter, UnknownParameter, UnsupportedParameter};
    for (code, param, request, rest) in [
        (
            UnknownParameter,
            "betaflag",
            json!({"a": 1, "betaflag": {}}),
            json!({"a": 1}),
        ),
        (
            UnknownParameter,
            "thinking.depth",
            json!({"thinking": {"depth": 1, "type": "adaptive"}}),
            json!({"thinking": {"type": "adaptive"}}),
        ),
        (
            UnsupportedParameter,
            "service_tier",
            json!({"service_tier": "flex"}),
            json!({}),
        ),
        (
            UnsupportedParameter,
            "web_search_options",
            json!({"web_search_options": {}}),
            json!({}),
        ),
        (
            UnknownParameter,
            "messages[1].content[0].colour",
            json!({"messages": [1, {"content": [{"text": "x", "colour": "red"}]}]}),
            json!({"messages": [1, {"content": [{"text": "x"}]}]}),
        ),
    ] {
        assert_eq!(
            after(code, param, request),
            Some((rest, vec![param.to_owned()])),
            "{param}"
        );
    }
    for (code, param) in [
        (UnsupportedParameter, "top_k"),
        (UnsupportedParameter, "logit_bias"),
        (UnsupportedParameter, "response_format"),
        (UnsupportedParameter, "inference_geo"),
        (UnsupportedParameter, "messages[0].content[0]"),
        (InvalidParameter, "temperature"),
        (InvalidParameter, "service_tier"),
        (ErrorCode::ParameterOutOfRange, "service_tier"),
        (ErrorCode::MissingRequiredParameter, "model"),
        // These names are not allowed in a header.
        (UnknownParameter, "a,b"),
        (UnknownParameter, "a\r\nb"),
        (UnknownParameter, "é"),
        (UnknownParameter, "not.there"),
        (UnknownParameter, "messages[7].x"),
    ] {
        let name = param.split('.').next().unwrap();
        let request = json!({name: "x", "messages": [{"content": [1]}], "model": "m"});
        assert_eq!(after(code, param, request), None, "{param}");
    }
    assert!(drop_refused(&mut json!({}), &Error::new(UnknownParameter, "No.")).is_none());
}

#[test]
fn hosted_tools_are_dropped_together() {
    let function = json!({"type": "function", "name": "f"});
    for kind in [
        "web_search",
        "web_search_20250305",
        "code_interpreter",
        "code_execution_20250825",
        "mcp",
        "namespace",
        "computer",
        "computer_20251124",
        "image_generation",
        "file_search",
        "local_shell",
        "tool_search",
    ] {
        let request = json!({"tools": [{"type": kind}, function, {"type": kind}]});
        let expected = json!({"tools": [function]});
        assert_eq!(
            after(ErrorCode::UnsupportedParameter, "tools[0].type", request),
            Some((expected, vec!["tools[0]".to_owned(), "tools[2]".to_owned()])),
            "{kind}"
        );
    }
    for tool in [
        json!({"type": "function", "function": {"name": "f"}}),
        json!({"type": "custom", "custom": {"name": "f"}}),
        json!({"name": "f", "input_schema": {}}),
        json!({"type": "bash_20250124", "name": "bash"}),
        json!({"type": "text_editor_20250728", "name": "edit"}),
        json!({"functionDeclarations": []}),
        json!({}),
        json!(1),
    ] {
        let request = json!({"tools": [tool]});
        assert_eq!(
            after(ErrorCode::InvalidParameter, "tools[0].type", request),
            None,
            "{tool}"
        );
    }
    let mixed = json!({"tools": [{"googleSearch": {}, "functionDeclarations": [1]}, {"codeExecution": {}}]});
    assert_eq!(
        after(ErrorCode::UnsupportedParameter, "tools[0].googleSearch", mixed),
        Some((
            json!({"tools": [{"functionDeclarations": [1]}]}),
            vec!["tools[0]".to_owned(), "tools[1]".to_owned()]
        ))
    );
}

#[test]
fn tool_choice_without_tools_is_dropped_unless_required() {
    let left = |choice: Value| {
        let request =
            json!({"tools": [{"type": "web_search"}], "tool_choice": choice, "parallel_tool_calls": true});
        let (rest, _) = after(ErrorCode::UnsupportedParameter, "tools[0].type", request).unwrap();
        rest
    };
    for choice in [
        json!("auto"),
        json!("none"),
        json!({"type": "auto"}),
        json!({"type": "none"}),
    ] {
        assert_eq!(left(choice), json!({}));
    }
    for choice in [
        json!("required"),
        json!({"type": "any"}),
        json!({"type": "tool", "name": "web_search"}),
    ] {
        assert_eq!(left(choice.clone()), json!({"tool_choice": choice}));
    }
}

#[test]
fn instructions_and_switches_are_adapted_by_the_paths_of_every_format() {
    use ErrorCode::UnsupportedParameter;
    let reminder = "<system-reminder>\nb\n</system-reminder>";
    let adapted = |param: &str, mut request: Value| {
        let names = adapt(&mut request, &refused(UnsupportedParameter, param))?;
        Some((request, names))
    };
    let parts = |kind: &str, text: &str| json!([{"type": kind, "text": text}, {"type": "image"}]);
    for (param, request, expected, names) in [
        (
            "messages[1].role",
            json!({"messages": [{"role": "system", "content": "b"}, {"role": "developer", "content": "b"}, {"role": "user", "content": "b"}, {"role": "system", "content": parts("text", "b")}]}),
            json!({"messages": [{"role": "system", "content": "b"}, {"role": "user", "content": reminder}, {"role": "user", "content": "b"}, {"role": "user", "content": parts("text", reminder)}]}),
            vec!["messages.role"],
        ),
        (
            "input[0].role",
            json!({"input": [{"role": "developer", "content": parts("input_text", "b")}]}),
            json!({"input": [{"role": "user", "content": parts("input_text", reminder)}]}),
            vec!["input.role"],
        ),
        (
            "parallel_tool_calls",
            json!({"parallel_tool_calls": false, "n": 1}),
            json!({"n": 1}),
            vec!["parallel_tool_calls"],
        ),
        (
            "tool_choice.disable_parallel_tool_use",
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            json!({"tool_choice": {"type": "auto"}}),
            vec!["tool_choice.disable_parallel_tool_use"],
        ),
        (
            "output_config.effort",
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low", "format": 1}}),
            json!({"output_config": {"format": 1}}),
            vec!["output_config.effort", "thinking"],
        ),
        (
            "generationConfig.thinkingConfig",
            json!({"generation_config": {"thinking_config": {}, "top_k": 1}}),
            json!({"generation_config": {"top_k": 1}}),
            vec!["generation_config.thinking_config"],
        ),
    ] {
        let names = names.into_iter().map(str::to_owned).collect();
        assert_eq!(adapted(param, request), Some((expected, names)), "{param}");
    }
    for (param, request) in [
        (
            "messages[0].role",
            json!({"messages": [{"role": "function", "content": "b"}]}),
        ),
        (
            "messages[7].role",
            json!({"messages": [{"role": "system", "content": "b"}]}),
        ),
        (
            "messages[x].role",
            json!({"messages": [{"role": "system", "content": "b"}]}),
        ),
        ("parallel_tool_calls", json!({})),
        ("top_k", json!({"top_k": 1})),
    ] {
        assert_eq!(adapted(param, request), None, "{param}");
    }
    let mut request = json!({"parallel_tool_calls": false});
    assert!(
        adapt(
            &mut request,
            &refused(ErrorCode::InvalidParameter, "parallel_tool_calls")
        )
        .is_none()
    );
}

#[test]
fn moved_instructions_follow_the_results_of_tools() {
    let reminder = |text: &str| format!("<system-reminder>\n{text}\n</system-reminder>");
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let block = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
    let item = json!({"type": "function_call_output", "call_id": "a"});
    for (list, call, result) in [
        ("messages", said("assistant", "call"), said("tool", "result")),
        ("messages", said("assistant", "call"), block),
        ("input", json!({"type": "function_call"}), item),
    ] {
        let mut request = json!({ list: [
            call, said("system", "a"), said("system", "b"), result, result, said("user", "c"),
            said("system", "d"), said("user", "e"),
        ] });
        let expected = json!({ list: [
            call, result, result, said("user", &reminder("a")), said("user", &reminder("b")),
            said("user", "c"), said("user", &reminder("d")), said("user", "e"),
        ] });
        let names = move_instructions(&mut request, list, 1);
        assert_eq!(names, Some(vec![format!("{list}.role")]));
        assert_eq!(request, expected);
    }
}
