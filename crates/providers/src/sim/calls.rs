//! Tool calls: those of the script, otherwise the one that the caller requires.

use serde_json::Value;
use tollgate_types::ErrorCode;
use tollgate_types::generate::{GenerateRequest, Role, Tool, ToolCall, ToolChoice};
use tollgate_upstream::UpstreamError;

use super::grammar::ScriptedCall;
use super::{Prompt, failure, schema};

/// Returns the tool calls of one choice. Empty if the caller disabled tools, or if the conversation
/// ends with a tool result, because the model then responds with text.
pub(super) fn of(prompt: &Prompt, choice: u32) -> Result<Vec<ToolCall>, UpstreamError> {
    let request = &prompt.request;
    let is_answered = request
        .messages
        .last()
        .is_some_and(|message| message.role == Role::Tool);
    if is_answered || request.tool_choice == ToolChoice::None {
        return Ok(Vec::new());
    }
    let demanded = demanded(request).map(|name| ScriptedCall {
        name: name.to_owned(),
        arguments: None,
    });
    let mut wanted: Vec<ScriptedCall> = match prompt.script.tools.is_empty() {
        true => demanded.into_iter().collect(),
        false => prompt.script.tools.clone(),
    };
    if request.parallel_tool_calls == Some(false) {
        wanted.truncate(1);
    }
    wanted
        .into_iter()
        .enumerate()
        .map(|(index, call)| {
            let tool = request.tools.iter().find(|tool| tool.name() == call.name);
            let arguments = match call.arguments {
                Some(arguments) => arguments,
                None => arguments_for(tool, &prompt.user_text)?,
            };
            Ok(ToolCall {
                id: format!("call_{:016x}_{choice}_{index}", prompt.hash),
                name: call.name,
                arguments,
                custom: matches!(tool, Some(Tool::Custom { .. })),
            })
        })
        .collect()
}

/// Returns the name of the tool that the caller requires, if any. The tool may be undeclared.
fn demanded(request: &GenerateRequest) -> Option<&str> {
    match &request.tool_choice {
        ToolChoice::Required => request.tools.first().map(Tool::name),
        ToolChoice::Named(name) => Some(name),
        ToolChoice::Allowed {
            required: true,
            names,
        } => names.first().map(String::as_str),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { .. } => None,
    }
}

fn arguments_for(tool: Option<&Tool>, user_text: &str) -> Result<String, UpstreamError> {
    match tool {
        Some(Tool::Custom { .. }) => Ok("simulated input".to_owned()),
        Some(Tool::Function {
            parameters: Some(parameters),
            ..
        }) => {
            let arguments = schema::sample(parameters, user_text).filter(Value::is_object);
            arguments
                .map(|arguments| arguments.to_string())
                .ok_or_else(|| UpstreamError {
                    param: Some("tools".to_owned()),
                    ..failure::simulated(
                        ErrorCode::UnsupportedParameter,
                        "The simulator found no arguments for the tool's parameters. Write them in the \
                         prompt: [[sim tool=NAME:{json}]].",
                    )
                })
        }
        _ => Ok("{}".to_owned()),
    }
}
