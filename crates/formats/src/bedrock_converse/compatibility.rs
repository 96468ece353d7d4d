//! Checks for request features of other formats that this format cannot express.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Abilities, Error, ErrorCode};

use super::blocks::{document, inline_image};
use crate::anthropic_messages::compatibility::{
    check_calls, check_extra_fields, check_sampling, unsupported, unsupported_messages,
};
use crate::anthropic_messages::encode::{inline, split_system};
use crate::anthropic_messages::reasoning;

/// Refuses a request that this format cannot represent without loss of information; the error names
/// the parameter as in the common form. Returns the names of the omitted fields that do not affect
/// the response.
pub fn check_compatible(request: &GenerateRequest, abilities: &Abilities) -> Result<Vec<String>, Error> {
    let sampling = &request.sampling;
    let unknown = "is not supported by this model";
    let non_zero = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
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
        if !matches!(tool, Tool::Function { .. }) {
            let problem = "is a tool type that this model does not support";
            return Err(unsupported(&format!("tools[{index}].type"), problem));
        }
    }
    check_messages(request)?;
    let always_reasons = reasoning::check_compatible(request, abilities)?;
    let mut ignored = check_extra_fields(request)?;
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
        (always_reasons, "reasoning_effort"),
    ];
    let left_out = hints.into_iter().filter(|(is_present, _)| *is_present);
    ignored.extend(left_out.map(|(_, name)| name.to_owned()));
    Ok(ignored)
}

fn check_messages(request: &GenerateRequest) -> Result<(), Error> {
    let (_, conversation) = split_system(&request.messages);
    for message in &request.messages {
        check_message(message)?;
    }
    if let Some(message) = conversation.iter().find(|message| message.role == Role::System) {
        return Err(unsupported(
            &format!("{}.role", message.place.path),
            "marks a system message after the first turn, which this model does not support",
        ));
    }
    match conversation.first() {
        Some(first) if first.role == Role::User => Ok(()),
        _ => Err(unsupported_messages("must begin with a user message")),
    }
}

fn check_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let is_from_user = matches!(message.role, Role::User | Role::Tool);
        let fits = match part {
            // A breakpoint is not a separate part of the request, so `index` does not count it. It
            // is encoded as a cache point after the preceding part.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) => true,
            // The gateway fetches media at a URL before it sends the request.
            Part::Image { url, .. } => is_from_user && (inline(url).is_none() || inline_image(url).is_some()),
            Part::File(file) => is_from_user && (file.url.is_some() || document(file).is_some()),
            Part::Stored(_) => is_from_user,
            Part::Audio { .. } | Part::Foreign { .. } => false,
        };
        if !fits {
            let problem = "has a content type that this model does not support in this message";
            return Err(unsupported(&message.place.part(index), problem));
        }
        index += 1;
    }
    check_calls(message)
}
