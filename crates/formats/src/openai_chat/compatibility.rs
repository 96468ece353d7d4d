//! Checks for request features of other formats that this format cannot express.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use crate::to_common::has_cache_breakpoints;

/// Maximum number of stop sequences.
const MAX_STOP_SEQUENCES: usize = 4;

/// Refuses a request that this format cannot represent without loss of information; the error names
/// the parameter as in the common form. Returns the names of the omitted fields that do not affect
/// the response.
pub fn check_compatible(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    if request.sampling.top_k.is_some() {
        return Err(unsupported("top_k", "is not supported by this model"));
    }
    if request.stop.len() > MAX_STOP_SEQUENCES {
        return Err(unsupported("stop", "must have at most 4 strings for this model"));
    }
    if request.max_tokens == Some(0) {
        return Err(unsupported("max_tokens", "must be at least 1 for this model"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Foreign { .. }) {
            return Err(unsupported(
                &format!("tools[{index}].type"),
                "is a tool type that this model does not support",
            ));
        }
    }
    for message in &request.messages {
        check_message(message)?;
    }
    match request.messages.last() {
        Some(last) if last.role == Role::Assistant => Err(unsupported(
            &last.place.path,
            "is a final assistant message (a prefill), which this model does not support",
        )),
        _ if has_cache_breakpoints(request) => Ok(vec!["cache_control".to_owned()]),
        _ => Ok(Vec::new()),
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
            Part::Foreign { .. } => false,
            Part::Image { .. } | Part::Audio { .. } | Part::File(_) | Part::Stored(_) => {
                // The encoder moves media in a tool result to a user turn.
                matches!(message.role, Role::User | Role::Tool)
            }
        };
        if !fits {
            let problem = "has a content type that this model does not support in this message";
            return Err(unsupported(&message.place.part(index), problem));
        }
        index += 1;
    }
    Ok(())
}

fn unsupported(param: &str, problem: &str) -> Error {
    let message = format!("'{param}' {problem}. Remove it or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
