//! What of a request in another format this one cannot be told.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use crate::hub::{is_usual, marks_cache};

/// The least cap on output tokens.
const LEAST_OUTPUT: u64 = 16;

/// Fields of chat completions that are told as they are.
pub(super) const TOLD: &[&str] = &[
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
];

/// Fields of other formats that no answer depends on.
const HINTS: &[&str] = &[
    "store",
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
    let penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    let unknown = "is not known to this model";
    let lacks = [
        (request.n > 1, "n", "must be 1 for this model"),
        (!request.stop.is_empty(), "stop", unknown),
        (sampling.top_k.is_some(), "top_k", unknown),
        (penalty(sampling.frequency_penalty), "frequency_penalty", unknown),
        (penalty(sampling.presence_penalty), "presence_penalty", unknown),
    ];
    if let Some((_, param, what)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, what));
    }
    if request.max_tokens.is_some_and(|cap| cap < LEAST_OUTPUT) {
        let message = format!("'max_tokens' is at least {LEAST_OUTPUT} for this model.");
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("max_tokens"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Foreign { .. }) {
            let what = "is a kind of tool that this model does not have";
            return Err(unsupported(&format!("tools[{index}].type"), what));
        }
    }
    for message in &request.messages {
        carry_message(message)?;
    }
    if let Some(last) = request.messages.last()
        && last.role == Role::Assistant
    {
        return Err(unsupported(
            &last.place.path,
            "is a turn of the assistant for the model to go on with, which this model does not do",
        ));
    }
    let mut ignored = carry_extra(request)?;
    if request.messages.iter().any(|message| message.name.is_some()) {
        ignored.push("messages.name".to_owned());
    }
    if sampling.seed.is_some() {
        ignored.push("seed".to_owned());
    }
    if marks_cache(request) {
        ignored.push("cache_control".to_owned());
    }
    Ok(ignored)
}

/// Fields of other formats: those that say what is usual, and hints, are left out.
fn carry_extra(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let mut ignored = Vec::new();
    for (name, value) in &request.extra {
        let is_told = TOLD.contains(&&**name) || matches!(&**name, "verbosity" | "stream_options");
        if is_usual(name, value) || is_told {
            continue;
        }
        if !HINTS.contains(&&**name) {
            return Err(unsupported(name, "is not known to this model"));
        }
        ignored.push(name.clone());
    }
    Ok(ignored)
}

fn carry_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let takes_media = matches!(message.role, Role::User | Role::Tool);
        let fits = match part {
            // A mark at the part before it.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Reasoning(_) => true,
            Part::Refusal(_) => message.role == Role::Assistant,
            Part::Image { .. } | Part::Stored(_) => takes_media,
            // What is at an address is fetched before it is sent.
            Part::File(file) => takes_media && (file.data.is_some() || file.url.is_some()),
            Part::Audio { .. } => message.role == Role::User,
            Part::Foreign { .. } => false,
        };
        if !fits {
            let what = "is a kind of content that this model does not take here";
            return Err(unsupported(&message.place.part(index), what));
        }
        index += 1;
    }
    if message.role == Role::Tool && message.tool_call_id.is_none() {
        return Err(unsupported(
            &format!("{}.role", message.place.path),
            "is 'function', which this model does not have; send tools",
        ));
    }
    Ok(())
}

fn unsupported(param: &str, what: &str) -> Error {
    let message = format!("'{param}' {what}. Leave it out, or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
