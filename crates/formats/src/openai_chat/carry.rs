//! What of a request in another format this one cannot be told.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use crate::hub::marks_cache;

/// The most texts that end an answer.
const MOST_STOPS: usize = 4;

/// Refuses what would be lost on the way into this format, with the parameter named as in the common form; answers
/// which hints are left out.
pub fn carry(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    if request.sampling.top_k.is_some() {
        return Err(unsupported("top_k", "is not known to this model"));
    }
    if request.stop.len() > MOST_STOPS {
        return Err(unsupported("stop", "may have at most 4 texts for this model"));
    }
    if request.max_tokens == Some(0) {
        return Err(unsupported("max_tokens", "must be at least 1 for this model"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Foreign { .. }) {
            return Err(unsupported(
                &format!("tools[{index}].type"),
                "is a kind of tool that this model does not have",
            ));
        }
    }
    for message in &request.messages {
        carry_message(message)?;
    }
    match request.messages.last() {
        Some(last) if last.role == Role::Assistant => Err(unsupported(
            &last.place.path,
            "is a turn of the assistant for the model to go on with, which this model does not do",
        )),
        _ if marks_cache(request) => Ok(vec!["cache_control".to_owned()]),
        _ => Ok(Vec::new()),
    }
}

fn carry_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let fits = match part {
            // A mark at the part before it.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Refusal(_) | Part::Reasoning(_) => true,
            Part::Foreign { .. } => false,
            Part::Image { .. } | Part::Audio { .. } | Part::File(_) | Part::Stored(_) => {
                message.role == Role::User
            }
        };
        if !fits {
            let what = "is a kind of content that this model does not take here";
            return Err(unsupported(&message.place.part(index), what));
        }
        index += 1;
    }
    Ok(())
}

fn unsupported(param: &str, what: &str) -> Error {
    let message = format!("'{param}' {what}. Leave it out, or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
