//! Adapts requests with parts that their model does not support. The key's compatibility setting
//! ([`Compat`](tollgate_storage::Compat)) determines the changes:
//!
//! - A strict key: the request is rejected.
//! - A standard key: instructions are moved, and unsupported switches are dropped.
//! - A lenient key: hosted tools, unknown fields and hints are dropped as well.
//!
//! The checks of each format report the unsupported part and its path. The part is changed in the
//! body, and the rest is checked again.

use bytes::Bytes;
use serde_json::Value;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_types::adaptation::as_reminder;
use tollgate_types::{Error, ErrorCode};

/// Maximum number of checks after the first one. All hosted tools are dropped in one round, so only
/// fields and hints need several.
const MAX_ROUNDS: usize = 16;

/// Fields that control the processing or the style of the response, and fields that enable tools at
/// the provider. Any other field that a model does not support is rejected even for lenient keys:
/// dropping it would change the content of the response.
const HINTS: &[&str] = &[
    "context_management",
    "mcp_servers",
    "moderation",
    "prediction",
    "service_tier",
    "speed",
    "store",
    "verbosity",
    "web_search_options",
];

/// Switches that some models do not support: the parameter that an error names, and the fields to
/// drop. Without them a model uses its default.
const SWITCHES: &[(&str, &[&str])] = &[
    ("parallel_tool_calls", &["parallel_tool_calls"]),
    (
        "tool_choice.disable_parallel_tool_use",
        &["tool_choice.disable_parallel_tool_use"],
    ),
    ("temperature", &["temperature"]),
    ("top_p", &["top_p"]),
    (
        "generationConfig.temperature",
        &["generationConfig.temperature", "generation_config.temperature"],
    ),
    (
        "generationConfig.topP",
        &[
            "generationConfig.topP",
            "generationConfig.top_p",
            "generation_config.topP",
            "generation_config.top_p",
        ],
    ),
    ("reasoning_effort", &["reasoning_effort"]),
    ("reasoning.effort", &["reasoning.effort"]),
    ("output_config.effort", &["output_config.effort", "thinking"]),
    (
        "generationConfig.thinkingConfig",
        &[
            "generationConfig.thinkingConfig",
            "generation_config.thinking_config",
        ],
    ),
];

/// Runs `check` on the body and adapts the body while the key allows it. Returns the result and the
/// body that passed the check.
pub(crate) fn checked<T>(
    caller: &Caller,
    ctx: &RequestContext,
    body: Bytes,
    check: impl Fn(&Bytes) -> Result<T, Error>,
) -> Result<(T, Bytes), Error> {
    let mut refusal = match check(&body) {
        Ok(checked) => return Ok((checked, body)),
        Err(refusal) => refusal,
    };
    if caller.is_strict() || !may_be_dropped(&refusal) {
        return Err(refusal);
    }
    let Ok(mut request) = serde_json::from_slice::<Value>(&body) else {
        return Err(refusal);
    };
    let adapt = |request: &mut Value, refusal: &Error| {
        let adapted = adapt(request, refusal);
        adapted.or_else(|| caller.is_lenient().then(|| drop_refused(request, refusal))?)
    };
    for _ in 0..MAX_ROUNDS {
        let Some(changed) = adapt(&mut request, &refusal) else {
            return Err(refusal);
        };
        let rest = Bytes::from(serde_json::to_vec(&request).map_err(Error::internal)?);
        let names: Vec<&str> = changed.iter().map(String::as_str).collect();
        ctx.note_ignored(&names);
        match check(&rest) {
            Ok(checked) => return Ok((checked, rest)),
            Err(next) => refusal = next,
        }
    }
    Err(refusal)
}

/// Moves rejected instructions or drops a rejected switch. Returns the names of the changed fields;
/// `None` if the error concerns neither.
fn adapt(request: &mut Value, refusal: &Error) -> Option<Vec<String>> {
    let param = refusal.param.as_deref()?;
    if refusal.code != ErrorCode::UnsupportedParameter {
        return None;
    }
    if let Some((list, first)) = item_of_role(param) {
        return move_instructions(request, list, first);
    }
    let (_, places) = SWITCHES.iter().find(|(name, _)| *name == param)?;
    let removed: Vec<String> = places
        .iter()
        .filter(|place| remove(request, place).is_some())
        .map(|place| (*place).to_owned())
        .collect();
    (!removed.is_empty()).then_some(removed)
}

/// Parses the list and the index from a path such as `messages[2].role`.
fn item_of_role(param: &str) -> Option<(&str, usize)> {
    let (list, index) = param.strip_suffix("].role")?.split_once('[')?;
    Some((list, index.parse().ok()?))
}

/// Converts all instructions from index `first` to user turns, in one round. A tool result must
/// directly follow its call, so instructions between the two are moved after the result.
fn move_instructions(request: &mut Value, list: &str, first: usize) -> Option<Vec<String>> {
    let turns = request.get_mut(list)?.as_array_mut()?;
    let is_instruction = |turn: &Value| matches!(turn["role"].as_str(), Some("system" | "developer"));
    if !turns.get(first).is_some_and(is_instruction) {
        return None;
    }
    for index in (first..turns.len()).rev() {
        let rest = turns.get_mut(index..)?;
        let (turn, following) = rest.split_first_mut()?;
        if is_instruction(turn) {
            change_to_user_turn(turn);
            let results = following.iter().take_while(|turn| has_tool_result(turn));
            let results = results.count();
            rest.get_mut(..=results)?.rotate_left(1);
        }
    }
    Some(vec![format!("{list}.role")])
}

fn change_to_user_turn(turn: &mut Value) {
    turn["role"] = Value::from("user");
    match turn.get_mut("content") {
        Some(Value::String(text)) => *text = as_reminder(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = as_reminder(text);
                }
            }
        }
        _ => {}
    }
}

fn has_tool_result(turn: &Value) -> bool {
    let is_output = |kind: &str| kind.ends_with("_call_output");
    let has_block = |parts: &Vec<Value>| parts.iter().any(|part| part["type"] == "tool_result");
    turn["role"] == "tool"
        || turn["type"].as_str().is_some_and(is_output)
        || turn["content"].as_array().is_some_and(has_block)
}

fn may_be_dropped(refusal: &Error) -> bool {
    matches!(
        refusal.code,
        ErrorCode::UnknownParameter | ErrorCode::UnsupportedParameter | ErrorCode::InvalidParameter
    ) && refusal.param.is_some()
}

/// Removes a rejected field, or all hosted tools, and returns the names of the removed parts;
/// `None` if nothing can be removed.
fn drop_refused(request: &mut Value, refusal: &Error) -> Option<Vec<String>> {
    let param = refusal.param.as_deref().filter(|_| may_be_dropped(refusal))?;
    if param.starts_with("tools[") || param == "tool_choice" {
        return drop_hosted_tools(request);
    }
    let is_hint = HINTS.contains(&param);
    let goes = match refusal.code {
        ErrorCode::UnknownParameter => true,
        ErrorCode::UnsupportedParameter => is_hint,
        _ => false,
    };
    // The name is sent in a response header.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if !goes || param.len() > 100 || !param.bytes().all(is_plain) {
        return None;
    }
    remove(request, param)?;
    Some(vec![param.to_owned()])
}

/// Removes the member at a path such as `messages[2].content[0].colour`.
fn remove(request: &mut Value, path: &str) -> Option<()> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = request;
    for step in parent.split(['.', '[']).filter(|step| !step.is_empty()) {
        place = match step.strip_suffix(']') {
            Some(index) => place.get_mut(index.parse::<usize>().ok()?)?,
            None => place.get_mut(step)?,
        };
    }
    place.as_object_mut()?.shift_remove(name).map(|_| ())
}

/// Removes every tool that runs at a provider. A `tool_choice` that requires one of them remains,
/// and the next check rejects it.
fn drop_hosted_tools(request: &mut Value) -> Option<Vec<String>> {
    let tools = request.get_mut("tools")?.as_array_mut()?;
    let mut dropped = Vec::new();
    let mut index = 0;
    tools.retain_mut(|tool| {
        let stays = without_hosted(tool, &format!("tools[{index}]"), &mut dropped);
        index += 1;
        stays
    });
    if dropped.is_empty() {
        return None;
    }
    if tools.is_empty() {
        let object = request.as_object_mut()?;
        object.shift_remove("tools");
        let choice = object.get("tool_choice");
        let kind = choice.map(|choice| choice.get("type").unwrap_or(choice));
        if matches!(kind.and_then(Value::as_str), Some("auto" | "none")) {
            object.shift_remove("tool_choice");
        }
        object.shift_remove("parallel_tool_calls");
    }
    Some(dropped)
}

/// Tool types that the caller executes.
const RUN_BY_THE_CALLER: &[&str] = &["function", "custom"];
/// Prefixes of tool types that the caller executes and that end in a date.
const DATED: &[&str] = &["bash_", "text_editor_", "memory_"];
/// Fields of untyped tools (Gemini) that hold functions of the caller.
const DECLARATIONS: &[&str] = &["functionDeclarations", "function_declarations"];

/// Removes the parts of a tool that run at a provider. Returns whether the rest of the tool is
/// retained.
fn without_hosted(tool: &mut Value, path: &str, dropped: &mut Vec<String>) -> bool {
    let Some(object) = tool.as_object_mut() else {
        return true;
    };
    if let Some(kind) = object.get("type").and_then(Value::as_str) {
        let stays = RUN_BY_THE_CALLER.contains(&kind) || DATED.iter().any(|dated| kind.starts_with(dated));
        if !stays {
            dropped.push(path.to_owned());
        }
        return stays;
    }
    if object.contains_key("name") || object.is_empty() {
        return true;
    }
    let before = object.len();
    object.retain(|name, _| DECLARATIONS.contains(&name.as_str()));
    if object.len() < before {
        dropped.push(path.to_owned());
    }
    !object.is_empty()
}

#[cfg(test)]
mod tests;
