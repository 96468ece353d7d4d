use serde_json::json;

use super::*;

fn refused(code: ErrorCode, param: &str) -> Error {
    Error::new(code, "No.").with_param(param)
}

/// What is left of the request, and what was taken out; nothing when it stays as it is.
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
fn fields_and_hints_go_by_their_paths() {
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
        // No name for a header.
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
fn tools_that_run_at_a_provider_go_together() {
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
fn a_choice_among_no_tools_goes_unless_it_demands_one() {
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
