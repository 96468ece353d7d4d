//! What of a request in another format this one cannot be told.

use tollgate_types::generate::{File, GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use super::encode::{inline, parted};
use crate::anthropic_messages::carry::{carry_extra, check_calls, unsupported};
use crate::hub::marks_cache;

const MOST_ANSWERS: u32 = 8;
const MOST_STOPS: usize = 5;

/// Refuses what would be lost on the way into this format, with the parameter named as in the common form; answers
/// which hints are left out.
pub fn carry(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let lacks = [
        (request.n > MOST_ANSWERS, "n", "may be at most 8 for this model"),
        (
            request.stop.len() > MOST_STOPS,
            "stop",
            "may have at most 5 texts for this model",
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
    if let Some((_, param, what)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, what));
    }
    if request
        .sampling
        .seed
        .is_some_and(|seed| i32::try_from(seed).is_err())
    {
        let message = "'seed' is a number of 32 bits for this model.";
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("seed"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if !matches!(tool, Tool::Function { .. }) {
            let what = "is a kind of tool that this model does not have";
            return Err(unsupported(&format!("tools[{index}].type"), what));
        }
    }
    carry_messages(request)?;
    let mut ignored = carry_extra(request)?;
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
    if marks_cache(request) {
        ignored.push("cache_control".to_owned());
    }
    Ok(ignored)
}

fn carry_messages(request: &GenerateRequest) -> Result<(), Error> {
    let (_, conversation) = parted(&request.messages);
    for message in &request.messages {
        carry_message(message)?;
    }
    match conversation.iter().find(|message| message.role == Role::System) {
        Some(message) => Err(unsupported(
            &format!("{}.role", message.place.path),
            "gives instructions within the conversation, which this model takes only at its beginning",
        )),
        None if conversation.is_empty() => Err(unsupported(
            "messages",
            "must have a turn of the user for this model",
        )),
        None => Ok(()),
    }
}

fn carry_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let fits = match part {
            // A mark at the part before it.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) => true,
            Part::Image { url, .. } => {
                let is_picture = |(mime_type, _): (&str, &str)| mime_type.starts_with("image/");
                // What is at an address is fetched before it is sent.
                message.role != Role::System && inline(url).is_none_or(is_picture)
            }
            Part::Audio { .. } => message.role == Role::User,
            Part::File(file) => message.role != Role::System && has_bytes(file),
            Part::Stored(_) => message.role != Role::System,
            Part::Foreign { .. } => false,
        };
        if !fits {
            let what = "is a kind of content that this model does not take here";
            return Err(unsupported(&message.place.part(index), what));
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
