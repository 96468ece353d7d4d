//! Checks for request features of other formats that this format cannot express.

use serde_json::value::RawValue;
use tollgate_types::generate::{File, GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Abilities, Error, ErrorCode};

use super::encode::{SAFETY_IDENTIFIER, end_user, inline, split_system};
use super::reasoning;
use crate::to_common::is_default_value;

const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Fields of other formats that do not affect the response and are omitted.
const HINTS: &[&str] = &[
    "metadata",
    "store",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "stream_options",
    "verbosity",
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "usage",
];

/// Refuses a request that this format cannot represent without loss of information; the error names
/// the parameter as in the common form. Returns the names of the omitted fields that do not affect
/// the response.
pub fn check_compatible(request: &GenerateRequest, abilities: &Abilities) -> Result<Vec<String>, Error> {
    let sampling = &request.sampling;
    let lacks = [
        (request.n > 1, "n", "must be 1 for this model"),
        (
            request.top_logprobs.is_some(),
            "logprobs",
            "is not supported by this model",
        ),
        (
            sampling.frequency_penalty.is_some_and(|penalty| penalty != 0.0),
            "frequency_penalty",
            "is not supported by this model",
        ),
        (
            sampling.presence_penalty.is_some_and(|penalty| penalty != 0.0),
            "presence_penalty",
            "is not supported by this model",
        ),
    ];
    if let Some((_, param, problem)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, problem));
    }
    check_sampling(request, abilities)?;
    if sampling.temperature.is_some_and(|temperature| temperature > 1.0) {
        let message = "'temperature' must be at most 1 for this model.";
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("temperature"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Custom { .. }) {
            let problem = "is a tool type that this model does not support";
            return Err(unsupported(&format!("tools[{index}].type"), problem));
        }
    }
    check_messages(request, abilities)?;
    let always_reasons = reasoning::check_compatible(request, abilities)?;
    let mut ignored = check_extra_fields(request)?;
    if request.user.is_none() && end_user(request).is_some() {
        ignored.retain(|name| name != SAFETY_IDENTIFIER);
    }
    let details = |part: &Part| matches!(part, Part::Image { detail: Some(_), .. });
    if request
        .messages
        .iter()
        .any(|message| message.parts.iter().any(details))
    {
        ignored.push("image_url.detail".to_owned());
    }
    if request.messages.iter().any(|message| message.name.is_some()) {
        ignored.push("messages.name".to_owned());
    }
    if sampling.seed.is_some() {
        ignored.push("seed".to_owned());
    }
    if always_reasons {
        ignored.push("reasoning_effort".to_owned());
    }
    Ok(ignored)
}

/// Refuses `temperature`, `top_p` and `top_k` if the model does not support sampling parameters.
pub(crate) fn check_sampling(request: &GenerateRequest, abilities: &Abilities) -> Result<(), Error> {
    match sampling_parameter(request) {
        Some(param) if abilities.sampling == Some(false) => {
            Err(unsupported(param, "is not supported by this model"))
        }
        _ => Ok(()),
    }
}

/// Returns the first sampling parameter that the request sets.
fn sampling_parameter(request: &GenerateRequest) -> Option<&'static str> {
    let sampling = &request.sampling;
    let set = [
        (sampling.temperature.is_some(), "temperature"),
        (sampling.top_p.is_some(), "top_p"),
        (sampling.top_k.is_some(), "top_k"),
    ];
    set.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
}

/// Checks the fields of other formats. Accepts default values and fields that do not affect the
/// response, and refuses all others. Returns the names of the accepted fields that have other
/// values than the default, except `stream_options`.
pub(crate) fn check_extra_fields(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let mut ignored = Vec::new();
    for (name, value) in &request.extra {
        if is_default_value(name, value) {
            continue;
        }
        if !HINTS.contains(&name.as_str()) {
            return Err(unsupported(name, "is not supported by this model"));
        }
        if name != "stream_options" {
            ignored.push(name.clone());
        }
    }
    Ok(ignored)
}

fn check_messages(request: &GenerateRequest, abilities: &Abilities) -> Result<(), Error> {
    let (_, conversation) = split_system(&request.messages);
    for message in &request.messages {
        check_message(message)?;
    }
    match conversation.iter().find(|message| message.role == Role::System) {
        Some(message) if abilities.system_turns != Some(true) => Err(unsupported(
            &format!("{}.role", message.place.path),
            "marks a system message after the first turn, which this model does not support",
        )),
        Some(message) if sampling_parameter(request).is_some() => Err(unsupported(
            &format!("{}.role", message.place.path),
            "marks a system message after the first turn, which cannot be combined with sampling parameters",
        )),
        _ if conversation.is_empty() => Err(unsupported_messages("must have a user message")),
        _ => Ok(()),
    }
}

fn check_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let fits = match part {
            // A breakpoint is not a separate part of the request, so `index` does not count it. It
            // is encoded as `cache_control` of the preceding block.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) | Part::Stored(_) => true,
            Part::Image { url, .. } => {
                inline(url).is_none_or(|(media_type, _)| IMAGE_TYPES.contains(&media_type))
            }
            Part::File(file) => has_document(file),
            Part::Audio { .. } | Part::Foreign { .. } => false,
        };
        if !fits {
            let problem = "has a content type that this model does not support";
            return Err(unsupported(&message.place.part(index), problem));
        }
        index += 1;
    }
    check_calls(message)
}

/// Refuses custom tool calls, arguments of tool calls that are not JSON objects, and tool results
/// without the id of a call.
pub(crate) fn check_calls(message: &Message) -> Result<(), Error> {
    for (index, call) in message.tool_calls.iter().enumerate() {
        let path = format!("{}.tool_calls[{index}]", message.place.path);
        if call.custom {
            return Err(unsupported(
                &path,
                "calls a tool type that this model does not support",
            ));
        }
        if !is_object(&call.arguments) {
            let message = format!("'{path}' must have a JSON object as its arguments for this model.");
            return Err(
                Error::new(ErrorCode::InvalidParameter, message).with_param(format!("{path}.arguments"))
            );
        }
    }
    if message.role == Role::Tool && message.tool_call_id.is_none() {
        return Err(unsupported(
            &format!("{}.role", message.place.path),
            "is 'function', a role that this model does not support; use tools",
        ));
    }
    Ok(())
}

fn has_document(file: &File) -> bool {
    let is_pdf = |data: &String| inline(data).is_some_and(|(media_type, _)| media_type == "application/pdf");
    // The gateway fetches a file at a URL before it sends the request.
    file.text.is_some() || file.url.is_some() || file.data.as_ref().is_some_and(is_pdf)
}

fn is_object(arguments: &str) -> bool {
    let text = arguments.trim();
    text.is_empty() || (text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok())
}

/// Returns the error for messages that lack what the format requires. Unlike an optional field, the
/// messages cannot be removed.
pub(crate) fn unsupported_messages(problem: &str) -> Error {
    let message = format!("'messages' {problem} for this model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param("messages")
}

pub(crate) fn unsupported(param: &str, problem: &str) -> Error {
    let message = format!("'{param}' {problem}. Remove it or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
