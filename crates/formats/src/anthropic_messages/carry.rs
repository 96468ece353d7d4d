//! What of a request in another format this one cannot be told.

use serde_json::value::RawValue;
use tollgate_types::generate::{File, GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use super::encode::{SAFETY_IDENTIFIER, end_user, inline, parted};
use crate::hub::is_usual;

const PICTURES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Fields of chat completions that no answer depends on.
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
];

/// Refuses what would be lost on the way into this format, with the parameter named as in the common form; answers
/// which hints are left out.
pub fn carry(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let sampling = &request.sampling;
    let lacks = [
        (request.n > 1, "n", "must be 1 for this model"),
        (
            request.top_logprobs.is_some(),
            "logprobs",
            "is not known to this model",
        ),
        (
            sampling.frequency_penalty.is_some_and(|penalty| penalty != 0.0),
            "frequency_penalty",
            "is not known to this model",
        ),
        (
            sampling.presence_penalty.is_some_and(|penalty| penalty != 0.0),
            "presence_penalty",
            "is not known to this model",
        ),
    ];
    if let Some((_, param, what)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, what));
    }
    if sampling.temperature.is_some_and(|temperature| temperature > 1.0) {
        let message = "'temperature' is at most 1 for this model.";
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("temperature"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Custom { .. }) {
            let what = "is a kind of tool that this model does not have";
            return Err(unsupported(&format!("tools[{index}].type"), what));
        }
    }
    carry_messages(request)?;
    let mut ignored = carry_extra(request)?;
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
    Ok(ignored)
}

/// Fields of other formats: those that say what is usual, and hints, are left out.
pub(crate) fn carry_extra(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let mut ignored = Vec::new();
    for (name, value) in &request.extra {
        if is_usual(name, value) {
            continue;
        }
        if !HINTS.contains(&name.as_str()) {
            return Err(unsupported(name, "is not known to this model"));
        }
        if name != "stream_options" {
            ignored.push(name.clone());
        }
    }
    Ok(ignored)
}

fn carry_messages(request: &GenerateRequest) -> Result<(), Error> {
    let (_, conversation) = parted(&request.messages);
    let sampling = &request.sampling;
    let samples = sampling.temperature.is_some() || sampling.top_p.is_some() || sampling.top_k.is_some();
    for message in &request.messages {
        carry_message(message)?;
    }
    match conversation.iter().find(|message| message.role == Role::System) {
        Some(message) if samples => Err(unsupported(
            &format!("{}.role", message.place.path),
            "gives instructions within the conversation, which this model takes only without sampling parameters",
        )),
        _ if conversation.is_empty() => Err(unsupported(
            "messages",
            "must have a turn of the user for this model",
        )),
        _ => Ok(()),
    }
}

fn carry_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let fits = match part {
            // A mark at the part before it.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) | Part::Stored(_) => true,
            Part::Image { url, .. } => {
                inline(url).is_none_or(|(media_type, _)| PICTURES.contains(&media_type))
            }
            Part::File(file) => has_document(file),
            Part::Audio { .. } | Part::Foreign { .. } => false,
        };
        if !fits {
            let what = "is a kind of content that this model does not take";
            return Err(unsupported(&message.place.part(index), what));
        }
        index += 1;
    }
    check_calls(message)
}

/// Calls of tools have JSON objects as their arguments, and results name the call.
pub(crate) fn check_calls(message: &Message) -> Result<(), Error> {
    for (index, call) in message.tool_calls.iter().enumerate() {
        let path = format!("{}.tool_calls[{index}]", message.place.path);
        if call.custom {
            return Err(unsupported(
                &path,
                "calls a kind of tool that this model does not have",
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
            "is 'function', which this model does not have; send tools",
        ));
    }
    Ok(())
}

fn has_document(file: &File) -> bool {
    let is_pdf = |data: &String| inline(data).is_some_and(|(media_type, _)| media_type == "application/pdf");
    // What is at an address is fetched before it is sent.
    file.text.is_some() || file.url.is_some() || file.data.as_ref().is_some_and(is_pdf)
}

fn is_object(arguments: &str) -> bool {
    let text = arguments.trim();
    text.is_empty() || (text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok())
}

pub(crate) fn unsupported(param: &str, what: &str) -> Error {
    let message = format!("'{param}' {what}. Leave it out, or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
