//! Checks for request features of other formats that this format cannot express.

use tollgate_types::generate::{File, GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Abilities, Error, ErrorCode, RequestedReasoning};

use super::encode::{inline, split_system};
use crate::anthropic_messages::compatibility::{
    check_calls, check_extra_fields, unsupported, unsupported_messages,
};
use crate::to_common::has_cache_breakpoints;

const MAX_CANDIDATES: u32 = 8;
const MAX_STOP_SEQUENCES: usize = 5;

/// Refuses a request that this format cannot represent without loss of information; the error names
/// the parameter as in the common form. Returns the names of the omitted fields that do not affect
/// the response.
pub fn check_compatible(request: &GenerateRequest, abilities: &Abilities) -> Result<Vec<String>, Error> {
    let lacks = [
        (
            request.n > MAX_CANDIDATES,
            "n",
            "must be at most 8 for this model",
        ),
        (
            request.stop.len() > MAX_STOP_SEQUENCES,
            "stop",
            "must have at most 5 strings for this model",
        ),
        (
            request.max_tokens == Some(0),
            "max_tokens",
            "must be at least 1 for this model",
        ),
        (
            request.parallel_tool_calls == Some(false) && !request.tools.is_empty(),
            "parallel_tool_calls",
            "cannot be false for this model",
        ),
    ];
    if let Some((_, param, problem)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, problem));
    }
    if request
        .sampling
        .seed
        .is_some_and(|seed| i32::try_from(seed).is_err())
    {
        let message = "'seed' must be a 32-bit integer for this model.";
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("seed"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if !matches!(tool, Tool::Function { .. }) {
            let problem = "is a tool type that this model does not support";
            return Err(unsupported(&format!("tools[{index}].type"), problem));
        }
    }
    check_messages(request)?;
    let mut ignored = check_extra_fields(request)?;
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    if parts.any(|part| matches!(part, Part::Image { detail: Some(_), .. })) {
        ignored.push("image_url.detail".to_owned());
    }
    if request.messages.iter().any(|message| message.name.is_some()) {
        ignored.push("messages.name".to_owned());
    }
    if request.user.is_some() {
        ignored.push("user".to_owned());
    }
    if has_cache_breakpoints(request) {
        ignored.push("cache_control".to_owned());
    }
    if RequestedReasoning::of(request) == Some(RequestedReasoning::Off) && !abilities.can_stop_reasoning() {
        ignored.push("reasoning_effort".to_owned());
    }
    Ok(ignored)
}

fn check_messages(request: &GenerateRequest) -> Result<(), Error> {
    let (_, conversation) = split_system(&request.messages);
    for message in &request.messages {
        check_message(message)?;
    }
    match conversation.iter().find(|message| message.role == Role::System) {
        Some(message) => Err(unsupported(
            &format!("{}.role", message.place.path),
            "marks a system message after the first turn, which this model does not support",
        )),
        None if conversation.is_empty() => Err(unsupported_messages("must have a user message")),
        None => Ok(()),
    }
}

fn check_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let fits = match part {
            // A breakpoint is not a separate part of the request, so `index` does not count it. The
            // format has no breakpoints: they are omitted.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) => true,
            Part::Image { url, .. } => {
                let is_image = |(mime_type, _): (&str, &str)| mime_type.starts_with("image/");
                // The gateway fetches an image at a URL before it sends the request.
                message.role != Role::System && inline(url).is_none_or(is_image)
            }
            Part::Audio { .. } => message.role == Role::User,
            Part::File(file) => message.role != Role::System && has_bytes(file),
            Part::Stored(_) => message.role != Role::System,
            Part::Foreign { .. } => false,
        };
        if !fits {
            let problem = "has a content type that this model does not support in this message";
            return Err(unsupported(&message.place.part(index), problem));
        }
        index += 1;
    }
    check_calls(message)
}

fn has_bytes(file: &File) -> bool {
    file.text.is_some()
        || file.url.is_some()
        || file.data.as_deref().is_some_and(|data| inline(data).is_some())
}
