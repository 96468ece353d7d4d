//! Keys that are lenient: what a model cannot use, and what changes nothing about the caller's own texts and tools, is
//! taken out of a request and named, where a strict key is refused.
//!
//! It goes by what is refused, so every format has it by one call: whoever checks a request says what is wrong and
//! where; what may go is taken out, and the rest is checked again.

use bytes::Bytes;
use serde_json::Value;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_types::{Error, ErrorCode};

/// The most times that a request is checked again. Tools go all at once, so only fields and hints come in numbers.
const MOST_ROUNDS: usize = 16;

/// Fields with a wish about the manner of the answer, or with tools that run at the provider. Everything else that a
/// model does not know is refused for lenient keys, too: its answers would be others than were asked for.
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

/// What `check` makes of the request, with the bytes that it was made of: the caller's own, or what is left of them.
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
    if !caller.is_lenient() || !may_be_dropped(&refusal) {
        return Err(refusal);
    }
    let Ok(mut request) = serde_json::from_slice::<Value>(&body) else {
        return Err(refusal);
    };
    for _ in 0..MOST_ROUNDS {
        let Some(dropped) = drop_refused(&mut request, &refusal) else {
            return Err(refusal);
        };
        let rest = Bytes::from(serde_json::to_vec(&request).map_err(Error::internal)?);
        let names: Vec<&str> = dropped.iter().map(String::as_str).collect();
        match check(&rest) {
            Ok(checked) => {
                ctx.note_ignored(&names);
                return Ok((checked, rest));
            }
            Err(next) => {
                ctx.note_ignored(&names);
                refusal = next;
            }
        }
    }
    Err(refusal)
}

fn may_be_dropped(refusal: &Error) -> bool {
    matches!(
        refusal.code,
        ErrorCode::UnknownParameter | ErrorCode::UnsupportedParameter | ErrorCode::InvalidParameter
    ) && refusal.param.is_some()
}

/// Takes out what is refused, and answers its names; nothing when it must stay.
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
    // The name stands in a header.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if !goes || param.len() > 100 || !param.bytes().all(is_plain) {
        return None;
    }
    remove(request, param)?;
    Some(vec![param.to_owned()])
}

/// Takes out the member at a path such as `messages[2].content[0].colour`.
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

/// Takes out every tool that runs at a provider. A choice that only they could meet stays, and is refused.
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

/// Types of tools that the caller runs.
const RUN_BY_THE_CALLER: &[&str] = &["function", "custom"];
/// The same, of formats that put a date behind.
const DATED: &[&str] = &["bash_", "text_editor_", "memory_"];
/// Under which a tool without a type has what the caller runs.
const DECLARATIONS: &[&str] = &["functionDeclarations", "function_declarations"];

/// Takes out what of a tool runs at a provider; answers whether anything is left.
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
