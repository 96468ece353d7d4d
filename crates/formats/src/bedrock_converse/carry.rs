//! What of a request in another format this one cannot be told.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool, ToolChoice};
use tollgate_types::{Error, ErrorCode};

use super::blocks::{document, picture};
use super::encode::calls_tools;
use crate::anthropic_messages::carry::{carry_extra, check_calls, unsupported};
use crate::anthropic_messages::encode::{inline, parted};

/// Refuses what would be lost on the way into this format, with the parameter named as in the common form; answers
/// which hints are left out.
pub fn carry(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let sampling = &request.sampling;
    let unknown = "is not known to this model";
    let non_zero = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    let may_not_call = request.tool_choice == ToolChoice::None && !request.tools.is_empty();
    let lacks = [
        (request.n > 1, "n", "must be 1 for this model"),
        (
            request.max_tokens == Some(0),
            "max_tokens",
            "must be at least 1 for this model",
        ),
        (request.top_logprobs.is_some(), "logprobs", unknown),
        (sampling.top_k.is_some(), "top_k", unknown),
        (non_zero(sampling.frequency_penalty), "frequency_penalty", unknown),
        (non_zero(sampling.presence_penalty), "presence_penalty", unknown),
        (
            request.parallel_tool_calls == Some(false) && !request.tools.is_empty(),
            "parallel_tool_calls",
            "cannot be false for this model",
        ),
        (
            may_not_call && calls_tools(&request.messages),
            "tool_choice",
            "cannot be 'none' for this model once tools were called",
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
        if !matches!(tool, Tool::Function { .. }) {
            let what = "is a kind of tool that this model does not have";
            return Err(unsupported(&format!("tools[{index}].type"), what));
        }
    }
    carry_messages(request)?;
    let mut ignored = carry_extra(request)?;
    let is_detailed = |part: &Part| matches!(part, Part::Image { detail: Some(_), .. });
    let hints = [
        (
            request
                .messages
                .iter()
                .any(|message| message.parts.iter().any(is_detailed)),
            "image_url.detail",
        ),
        (
            request.messages.iter().any(|message| message.name.is_some()),
            "messages.name",
        ),
        (sampling.seed.is_some(), "seed"),
        (request.user.is_some(), "user"),
    ];
    let left_out = hints.into_iter().filter(|(is_there, _)| *is_there);
    ignored.extend(left_out.map(|(_, name)| name.to_owned()));
    Ok(ignored)
}

fn carry_messages(request: &GenerateRequest) -> Result<(), Error> {
    let (_, conversation) = parted(&request.messages);
    for message in &request.messages {
        carry_message(message)?;
    }
    if let Some(message) = conversation.iter().find(|message| message.role == Role::System) {
        return Err(unsupported(
            &format!("{}.role", message.place.path),
            "gives instructions within the conversation, which this model takes only at its beginning",
        ));
    }
    match conversation.first() {
        Some(first) if first.role == Role::User => Ok(()),
        _ => Err(unsupported(
            "messages",
            "must begin with a turn of the user for this model",
        )),
    }
}

fn carry_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let said_by_user = matches!(message.role, Role::User | Role::Tool);
        let fits = match part {
            // A mark at the part before it.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) => true,
            // What is at an address is fetched before it is sent.
            Part::Image { url, .. } => said_by_user && (inline(url).is_none() || picture(url).is_some()),
            Part::File(file) => said_by_user && (file.url.is_some() || document(file).is_some()),
            Part::Stored(_) => said_by_user,
            Part::Audio { .. } | Part::Foreign { .. } => false,
        };
        if !fits {
            let what = "is a kind of content that this model does not take here; pictures and documents are data URLs";
            return Err(unsupported(&message.place.part(index), what));
        }
        index += 1;
    }
    check_calls(message)
}
